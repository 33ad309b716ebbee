import { QmError } from "./errors.ts";

type Source<T> = Iterable<T> | AsyncIterable<T>;

/** What comes bit by bit: values, or text that has one JSON value a line. */
export type StreamSource =
  | { readonly form: "records"; readonly values: Source<unknown> }
  | { readonly form: "lines"; readonly chunks: Source<string | Uint8Array> };

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
  static records(values: Source<unknown>): Streamed {
    return new Streamed({ form: "records", values });
  }

  /** Lines may be spread over chunks, and so may the bytes of a character (UTF-8). */
  static jsonLines(chunks: Source<string | Uint8Array>): Streamed {
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
