import { messageOf, QmError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import { counted } from "../core/plain-text.ts";

/** What was on the lines so far; grows while they are read. */
export interface LineCounts {
  readonly values: number;
  readonly empty: number;
  /** Lines that are not JSON, where they are counted. */
  readonly bad: number;
}

export interface LineRules {
  /** How many characters a line may have. */
  readonly lineLimit?: number;
  /** `fail`: a line that is not JSON is an error that names it. `count`: it is left out and counted. */
  readonly badLines?: "fail" | "count";
}

export interface ReadLines<Values> {
  readonly values: Values;
  readonly counts: LineCounts;
}

const LINE_LIMIT = 64 * 1024 * 1024;
const BOM = "\uFEFF";

/** JSON lines that come in chunks. No more is held than a chunk and a line. */
export function readJsonLines(
  chunks: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>,
  rules: LineRules = {},
): ReadLines<AsyncGenerator<Json>> {
  const reader = createReader(rules);
  return { values: valuesOf(chunks, reader), counts: reader.counts };
}

/** JSON lines of a text that is there already. It is not taken apart before it is read. */
export function jsonLinesOf(text: string, rules: LineRules = {}): ReadLines<Generator<Json>> {
  const reader = createReader(rules);
  function* values(): Generator<Json> {
    yield* reader.push(text);
    yield* reader.end();
  }
  return { values: values(), counts: reader.counts };
}

async function* valuesOf(
  chunks: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>,
  reader: Reader,
): AsyncGenerator<Json> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  for await (const chunk of chunks) {
    yield* reader.push(
      typeof chunk === "string" ? chunk : decoded(reader, () => decoder.decode(chunk, { stream: true })),
    );
  }
  yield* reader.push(decoded(reader, () => decoder.decode()));
  yield* reader.end();
}

function decoded(reader: Reader, decode: () => string): string {
  try {
    return decode();
  } catch (thrown) {
    throw new QmError("invalid_output", `the text is not UTF-8, on line ${reader.line()} or after it`, {
      cause: thrown,
    });
  }
}

interface Reader {
  readonly counts: LineCounts;
  /** The number of the line that comes next, from 1. */
  line(): number;
  push(text: string): Generator<Json>;
  end(): Generator<Json>;
}

function createReader({ lineLimit = LINE_LIMIT, badLines = "fail" }: LineRules): Reader {
  const counts = { values: 0, empty: 0, bad: 0 };
  let line = 1;
  let started = false;
  /** The beginning of a line whose end has not come. */
  let begun = "";

  function* parsed(text: string): Generator<Json> {
    if (text.length > lineLimit) throw tooLong(line, lineLimit);
    const number = line++;
    if (text.trim() === "") {
      counts.empty++;
      return;
    }
    let value: Json;
    try {
      value = JSON.parse(text) as Json;
    } catch (thrown) {
      if (badLines === "fail") throw notJson(number, thrown);
      counts.bad++;
      return;
    }
    counts.values++;
    yield value;
  }

  return {
    counts,
    line: () => line,
    *push(text) {
      if (text === "") return;
      let from = !started && text.startsWith(BOM) ? 1 : 0;
      started = true;
      for (let at = text.indexOf("\n", from); at >= 0; at = text.indexOf("\n", from)) {
        const whole = begun + text.slice(from, at);
        begun = "";
        from = at + 1;
        yield* parsed(whole);
      }
      begun += text.slice(from);
      if (begun.length > lineLimit) throw tooLong(line, lineLimit);
    },
    *end() {
      const last = begun;
      begun = "";
      if (last !== "") yield* parsed(last);
    },
  };
}

function tooLong(line: number, limit: number): QmError {
  return new QmError("too_large", `line ${line} is longer than ${counted(limit, "character")}`, {
    hint: "JSON lines have one value a line; is it one JSON text?",
  });
}

function notJson(line: number, thrown: unknown): QmError {
  return new QmError("invalid_output", `line ${line} is not JSON: ${messageOf(thrown)}`, {
    cause: thrown,
    details: { line },
  });
}
