import { QmError } from "./errors.ts";
import { clip, isRecord, type Json, type JsonObject } from "./json.ts";

type IterableSource<T> = Iterable<T> | AsyncIterable<T>;

type StreamSource =
  | { readonly form: "records"; readonly values: IterableSource<unknown> }
  | { readonly form: "lines"; readonly chunks: IterableSource<string | Uint8Array> };

/**
 * A handler's result that is too large for memory. It is read once, piece by piece, into a collection. Its source is
 * closed after reading, on an error and when unread. If it breaks, the records before the break are kept and the error
 * says where.
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

  static records(values: IterableSource<unknown>): Streamed {
    return new Streamed({ form: "records", values });
  }

  /** Chunks may split lines and UTF-8 characters. */
  static jsonLines(chunks: IterableSource<string | Uint8Array>): Streamed {
    return new Streamed({ form: "lines", chunks });
  }

  /** Hands the source over to its only reader. Throws `conflict` when it was taken before. */
  take(): StreamSource {
    const source = this.#source;
    if (source === undefined) throw new QmError("conflict", "the stream was already read; it can be read only once");
    this.#source = undefined;
    return source;
  }

  /** Closes the source unread. Does nothing after `take`. */
  async discard(): Promise<void> {
    const source = this.#source;
    this.#source = undefined;
    if (source === undefined) return;
    const from = source.form === "records" ? source.values : source.chunks;
    // Returning an iterator that has not started does not close a Node stream.
    if ("destroy" in from && typeof from.destroy === "function") return void from.destroy();
    const reading = Symbol.asyncIterator in from ? from[Symbol.asyncIterator]() : from[Symbol.iterator]();
    await reading.return?.();
  }
}

/** One MCP content block: `text`, `image`, `audio`, `resource` or `resource_link`. */
export type ContentBlock = JsonObject & { readonly type: string };

export interface Content {
  readonly blocks: readonly ContentBlock[];
  /** Whether `data` is the tool's own structured result. */
  readonly structured?: boolean;
  /** The structured content that a tool sent with its own error. */
  readonly errorData?: Json;
  readonly meta?: JsonObject;
}

/** A handler's result with pictures, links or several texts beside its data. */
export class WithContent {
  readonly data: unknown;
  readonly content: Content;

  constructor(data: unknown, content: Content) {
    this.data = data;
    this.content = content;
  }
}

/** The blocks as text for a model: texts unchanged, a description of everything else. */
export const formatContent = (blocks: readonly ContentBlock[], limit: number): string =>
  cutText(blocks.map(formatBlock).join("\n"), limit);

export function cutText(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const note = ` [cut: ${text.length} characters in all]`;
  return clip(text, limit - note.length) + note;
}

export const measureMedia = (blocks: readonly ContentBlock[]): number =>
  blocks.reduce((size, block) => size + getEncodedData(block).length, 0);

function formatBlock(block: ContentBlock): string {
  const { type, text, uri, name, mimeType, resource } = block;
  if (type === "text" && typeof text === "string") return text;
  const inner = isRecord(resource) ? resource : {};
  if (typeof inner.text === "string") return inner.text;
  const what = [type, mimeType, name, uri, inner.uri].filter((part) => typeof part === "string").join(" ");
  const size = getEncodedData(block).length;
  return `[${what}${size > 0 ? `, ${size} characters of base64` : ""}]`;
}

function getEncodedData({ data, resource }: ContentBlock): string {
  const encoded = [data, isRecord(resource) ? resource.blob : undefined];
  return encoded.find((text) => typeof text === "string") ?? "";
}
