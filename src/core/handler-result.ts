import { QmError } from "./errors.ts";
import type { JsonObject } from "./json.ts";
import { formatResultValue } from "./outcome.ts";

type IterableSource<T> = Iterable<T> | AsyncIterable<T>;

/** What comes bit by bit: values, or text that has one JSON value a line. */
type StreamSource =
  | { readonly form: "records"; readonly values: IterableSource<unknown> }
  | { readonly form: "lines"; readonly chunks: IterableSource<string | Uint8Array> };

/**
 * What a handler answers when its result is too much to be held at once. It is read once, as it comes, into a collection: no
 * more of it is in memory than a portion. What it comes from is closed when it is read to the end, cannot be read, or is not
 * wanted. When it breaks, what came before is kept, and the error says where.
 *
 * @example
 * qm.register({
 *   name: "list_orders",
 *   description: "List every order.",
 *   scope: "generalist",
 *   effect: "read",
 *   inputSchema: { type: "object", properties: {} },
 *   handler: () => Streamed.records(db.prepare("select * from orders").iterate()),
 * });
 *
 * const { kept } = await qm.invoke("tool__list_orders"); // { handle: "collection__1", count: 2000000, … }
 */
export class Streamed {
  #source: StreamSource | undefined;

  private constructor(source: StreamSource) {
    this.#source = source;
  }

  /** Each value becomes one note. */
  static records(values: IterableSource<unknown>): Streamed {
    return new Streamed({ form: "records", values });
  }

  /** Lines may be spread over chunks, and so may the bytes of a character (UTF-8). */
  static jsonLines(chunks: IterableSource<string | Uint8Array>): Streamed {
    return new Streamed({ form: "lines", chunks });
  }

  /** Whoever takes it reads it. Throws when it was taken before. */
  take(): StreamSource {
    const source = this.#source;
    if (source === undefined) throw new QmError("conflict", "the stream was read before, and it can be read only once");
    this.#source = undefined;
    return source;
  }

  /** Closes what it comes from, unread. Does nothing when it was taken. */
  async discard(): Promise<void> {
    const source = this.#source;
    this.#source = undefined;
    if (source === undefined) return;
    const from = source.form === "records" ? source.values : source.chunks;
    // A stream of Node's is not closed by an iterator of it that has not begun.
    if ("destroy" in from && typeof from.destroy === "function") return void from.destroy();
    const reading = Symbol.asyncIterator in from ? from[Symbol.asyncIterator]() : from[Symbol.iterator]();
    await reading.return?.();
  }
}

/** One piece of a result in the words of MCP: `text`, `image`, `audio`, `resource` or `resource_link`. */
export type ContentBlock = JsonObject & { readonly type: string };

/** A result as an interface shows it, beside the same result as data. */
export interface Content {
  readonly blocks: readonly ContentBlock[];
  /** Whether `data` is what the tool itself gave as its structured result, beside the blocks. */
  readonly structured?: boolean;
  readonly meta?: JsonObject;
}

/** What a handler answers when its result is more than data: pictures, links, several texts. */
export class WithContent {
  readonly data: unknown;
  readonly content: Content;

  constructor(data: unknown, content: Content) {
    this.data = data;
    this.content = content;
  }
}

/** The blocks as a model reads them: texts as they are, of everything else what it is. */
export function formatContent(blocks: readonly ContentBlock[], limit: number): string {
  return formatResultValue(blocks.map(formatBlock).join("\n"), limit);
}

/** How much of a result is in its blocks and not in its data, in characters. */
export function measureMedia(blocks: readonly ContentBlock[]): number {
  return blocks.reduce((size, block) => size + getEncodedData(block).length, 0);
}

function formatBlock(block: ContentBlock): string {
  const { type, text, uri, name, mimeType } = block;
  if (type === "text" && typeof text === "string") return text;
  const what = [type, mimeType, name, uri].filter((part) => typeof part === "string").join(" ");
  const inner = typeof block.resource === "object" && block.resource !== null ? (block.resource as JsonObject) : {};
  if (typeof inner.text === "string") return inner.text;
  const size = getEncodedData(block).length;
  const where = typeof inner.uri === "string" ? ` ${inner.uri}` : "";
  return `[${what}${where}${size > 0 ? `, ${size} characters of base64` : ""}]`;
}

function getEncodedData(block: ContentBlock): string {
  const inner = typeof block.resource === "object" && block.resource !== null ? (block.resource as JsonObject) : {};
  for (const encoded of [block.data, inner.blob]) if (typeof encoded === "string") return encoded;
  return "";
}
