import { formatCount } from "../core/display-text.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";

/** Grows while the lines are read. */
export type LineCounts = Readonly<{ values: number; empty: number }>;

/** The limit in characters. */
type JsonLinesOptions = { readonly lineLimit?: number };
type JsonLines<Values> = Readonly<{ values: Values; counts: LineCounts }>;
const LINE_LIMIT = 64 * 1024 * 1024;
const BOM = "\uFEFF";
export type TextChunks = Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>;

/** Reads JSON lines from chunks. Holds one chunk and one line in memory. */
export function readJsonLines(chunks: TextChunks, rules: JsonLinesOptions = {}): JsonLines<AsyncGenerator<Json>> {
  const reader = createJsonLineReader(rules);
  return { values: readValues(chunks, reader), counts: reader.counts };
}

/** Reads JSON lines from a text, without splitting it first. */
export function parseJsonLines(text: string, rules: JsonLinesOptions = {}): JsonLines<Generator<Json>> {
  const reader = createJsonLineReader(rules);
  function* values(): Generator<Json> {
    yield* reader.push(text);
    yield* reader.end();
  }
  return { values: values(), counts: reader.counts };
}

async function* readValues(chunks: TextChunks, reader: JsonLineReader): AsyncGenerator<Json> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  for await (const chunk of chunks) {
    const decode = () => (typeof chunk === "string" ? chunk : decoder.decode(chunk, { stream: true }));
    yield* reader.push(decodeChunk(reader, decode));
  }
  yield* reader.push(decodeChunk(reader, () => decoder.decode()));
  yield* reader.end();
}

function decodeChunk(reader: JsonLineReader, decode: () => string): string {
  try {
    return decode();
  } catch (thrown) {
    const message = `the text is not UTF-8, on line ${reader.line()} or after it`;
    throw new QmError("invalid_output", message, { cause: thrown });
  }
}

type JsonLineReader = ReturnType<typeof createJsonLineReader>;

function createJsonLineReader({ lineLimit = LINE_LIMIT }: JsonLinesOptions) {
  const counts = { values: 0, empty: 0 };
  let line = 1;
  let started = false;
  /** The beginning of an unfinished line. */
  let begun = "";

  function* parseLine(text: string): Generator<Json> {
    if (text.length > lineLimit) throw lineTooLongError(line, lineLimit);
    const number = line++;
    if (text.trim() === "") {
      counts.empty++;
      return;
    }
    let value: Json;
    try {
      value = JSON.parse(text) as Json;
    } catch (thrown) {
      const message = `line ${number} is not JSON: ${getErrorMessage(thrown)}`;
      throw new QmError("invalid_output", message, { cause: thrown, details: { line: number } });
    }
    counts.values++;
    yield value;
  }

  return {
    counts,
    /** The number of the next line, from 1. */
    line: () => line,
    *push(text: string): Generator<Json> {
      if (text === "") return;
      let from = !started && text.startsWith(BOM) ? 1 : 0;
      started = true;
      for (let at = text.indexOf("\n", from); at >= 0; at = text.indexOf("\n", from)) {
        const whole = begun + text.slice(from, at);
        begun = "";
        from = at + 1;
        yield* parseLine(whole);
      }
      begun += text.slice(from);
      if (begun.length > lineLimit) throw lineTooLongError(line, lineLimit);
    },
    *end(): Generator<Json> {
      const last = begun;
      begun = "";
      if (last !== "") yield* parseLine(last);
    },
  };
}

function lineTooLongError(line: number, limit: number): QmError {
  const hint = "JSON lines have one value per line. Is it a single JSON text?";
  return new QmError("too_large", `line ${line} is longer than ${formatCount(limit, "character")}`, { hint });
}

/** The JSON form of a value: a Date becomes a text. Undefined if it has none. Throws the error that `invalid` makes. */
export function toJson(value: unknown, invalid: (reason: string, cause: unknown) => QmError): Json | undefined {
  try {
    const text = JSON.stringify(value);
    return text === undefined ? undefined : (JSON.parse(text) as Json);
  } catch (thrown) {
    throw invalid(getErrorMessage(thrown), thrown);
  }
}

type TextForm = Readonly<{ form: "json"; value: Json } | { form: "lines" } | { form: "text" }>;
const TEXT: TextForm = { form: "text" };

/** A number that may lose digits when it is parsed. */
const LONG_NUMBER = /\d{16}/;

/**
 * Only lists and objects count as JSON, and every line of JSON lines must be one. A text with integers too large for a
 * number stays a text, because they may be ids.
 */
export function detectTextForm(text: string): TextForm {
  const start = /\S/.exec(text)?.[0];
  if (start !== "{" && start !== "[") return TEXT;
  if (isJsonLines(text)) return { form: "lines" };
  try {
    const value = JSON.parse(text) as Json;
    return LONG_NUMBER.test(text) && hasUnsafeInteger(value) ? TEXT : { form: "json", value };
  } catch {
    return TEXT;
  }
}

/** Parses every line: a single invalid one makes it a text. */
function isJsonLines(text: string): boolean {
  const end = text.indexOf("\n");
  if (end < 0 || text.slice(end).trim() === "") return false;
  const checksDigits = LONG_NUMBER.test(text);
  const { values, counts } = parseJsonLines(text);
  try {
    for (const value of values) {
      if (typeof value !== "object" || value === null || (checksDigits && hasUnsafeInteger(value))) return false;
    }
    return counts.values > 1;
  } catch {
    return false;
  }
}

function hasUnsafeInteger(value: Json): boolean {
  if (typeof value === "number") return Number.isInteger(value) && !Number.isSafeInteger(value);
  return typeof value === "object" && value !== null && Object.values(value).some(hasUnsafeInteger);
}
