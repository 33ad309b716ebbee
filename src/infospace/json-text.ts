import { formatCount } from "../core/display-text.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";

/** What was on the lines so far; grows while they are read. */
export interface LineCounts {
  readonly values: number;
  readonly empty: number;
  /** Lines that are not JSON, where they are counted. */
  readonly bad: number;
}

interface JsonLinesOptions {
  /** How many characters a line may have. */
  readonly lineLimit?: number;
  /** `fail`: a line that is not JSON is an error that names it. `count`: it is left out and counted. */
  readonly badLines?: "fail" | "count";
}

interface JsonLines<Values> {
  readonly values: Values;
  readonly counts: LineCounts;
}

const LINE_LIMIT = 64 * 1024 * 1024;
const BOM = "\uFEFF";

/** JSON lines that come in chunks. No more is held than a chunk and a line. */
export function readJsonLines(
  chunks: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>,
  rules: JsonLinesOptions = {},
): JsonLines<AsyncGenerator<Json>> {
  const reader = createJsonLineReader(rules);
  return { values: readValues(chunks, reader), counts: reader.counts };
}

/** JSON lines of a text that is there already. It is not taken apart before it is read. */
export function parseJsonLines(text: string, rules: JsonLinesOptions = {}): JsonLines<Generator<Json>> {
  const reader = createJsonLineReader(rules);
  function* values(): Generator<Json> {
    yield* reader.push(text);
    yield* reader.end();
  }
  return { values: values(), counts: reader.counts };
}

async function* readValues(
  chunks: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>,
  reader: JsonLineReader,
): AsyncGenerator<Json> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  for await (const chunk of chunks) {
    yield* reader.push(
      typeof chunk === "string" ? chunk : decodeChunk(reader, () => decoder.decode(chunk, { stream: true })),
    );
  }
  yield* reader.push(decodeChunk(reader, () => decoder.decode()));
  yield* reader.end();
}

function decodeChunk(reader: JsonLineReader, decode: () => string): string {
  try {
    return decode();
  } catch (thrown) {
    throw new QmError("invalid_output", `the text is not UTF-8, on line ${reader.line()} or after it`, {
      cause: thrown,
    });
  }
}

interface JsonLineReader {
  readonly counts: LineCounts;
  /** The number of the line that comes next, from 1. */
  line(): number;
  push(text: string): Generator<Json>;
  end(): Generator<Json>;
}

function createJsonLineReader({ lineLimit = LINE_LIMIT, badLines = "fail" }: JsonLinesOptions): JsonLineReader {
  const counts = { values: 0, empty: 0, bad: 0 };
  let line = 1;
  let started = false;
  /** The beginning of a line whose end has not come. */
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
      if (badLines === "fail") throw invalidLineError(number, thrown);
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
        yield* parseLine(whole);
      }
      begun += text.slice(from);
      if (begun.length > lineLimit) throw lineTooLongError(line, lineLimit);
    },
    *end() {
      const last = begun;
      begun = "";
      if (last !== "") yield* parseLine(last);
    },
  };
}

function lineTooLongError(line: number, limit: number): QmError {
  return new QmError("too_large", `line ${line} is longer than ${formatCount(limit, "character")}`, {
    hint: "JSON lines have one value a line; is it one JSON text?",
  });
}

function invalidLineError(line: number, thrown: unknown): QmError {
  return new QmError("invalid_output", `line ${line} is not JSON: ${getErrorMessage(thrown)}`, {
    cause: thrown,
    details: { line },
  });
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

type TextForm =
  | { readonly form: "json"; readonly value: Json }
  | { readonly form: "lines" }
  | { readonly form: "text" };

const TEXT: TextForm = { form: "text" };

/** A number that is not the same any more once it was read. */
const LONG_NUMBER = /\d{16}/;

/**
 * Only a list or an object is more than a text, and of JSON lines every line must be one. What would not come out as it went
 * in stays a text: numbers with more digits than a number can hold are somebody's ids.
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

/** Looks at every line before one of them is kept: a line that is none makes all of it a text. */
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
