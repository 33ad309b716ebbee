import { z } from "zod";
import { UNSAFE_CHARACTERS } from "../../core/display-text.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { isRecord, type Json, type JsonObject } from "../../core/json.ts";
import { formatJsonPath, type JsonPath, type PathStep, parseJsonPath, readJsonPath } from "../json-path.ts";
import { getJsonKind, isList } from "../json-preview.ts";
import { detectTextForm } from "../json-text.ts";
import { findLongestList } from "../large-part.ts";
import { delimiterShape } from "./coerce.ts";
import { defineDerivation, type PrimitiveOptions, pathShape } from "./derive.ts";
import { addArticle, createReasonLog, type PrimitiveItems } from "./operation.ts";

/** `items`: of a list, or of a text with the JSON of one; `json_lines`: one JSON value per line. */
export const splitModes = ["sentence", "paragraph", "line", "delimiter", "items", "json_lines"] as const;
export type SplitMode = (typeof splitModes)[number];

export const splitAction = (parts: PrimitiveOptions) =>
  defineDerivation(parts, {
    entry: "split",
    description:
      "Take every item apart, into the items of its list, JSON lines, lines or sentences, as a new collection of the parts.",
    fields: {
      by: z.enum(splitModes).optional().describe("Absent: found out, and told."),
      path: pathShape.default("").describe("Where in the item the text or list is."),
      delimiter: delimiterShape.optional(),
    },
    examples: [{ args: { target: "note__12" } }, { args: { target: "note__12", by: "paragraph", path: "body" } }],
    async derive({ target, path, delimiter, by = delimiter === undefined ? undefined : "delimiter" }, open) {
      if (by === "delimiter" && delimiter === undefined) {
        const hint = 'Give it: "delimiter": ";".';
        throw new QmError("invalid_arguments", 'by "delimiter" needs the delimiter', { hint });
      }
      const parsed = parseJsonPath(path);
      return splitItems(await open(target), { by, path: parsed, delimiter: delimiter ?? "" });
    },
  });

export type SplitOptions = Readonly<{ by?: SplitMode | undefined; path: JsonPath; delimiter: string }>;

/**
 * The parts in order, with their white space. An empty text or list has no parts and is not a failure. Without `by`, an
 * object is split at its longest list, a text at the JSON list or JSON lines it contains. Other texts are split like the
 * first one: by short paragraphs, else by lines, else by sentences.
 */
export function splitItems(inputs: PrimitiveItems, { by, path, delimiter }: SplitOptions) {
  const reasons = createReasonLog();
  let [input, dropped, droppedLines] = [0, 0, 0];
  const detector = by === undefined ? createSplitDetector(path.steps) : undefined;

  function* parseLines(text: string, position: number): Generator<Json> {
    let number = 0;
    for (const line of splitLines(text)) {
      number++;
      if (line.trim() === "") continue;
      let value: Json;
      try {
        value = JSON.parse(line) as Json;
      } catch (thrown) {
        droppedLines++;
        reasons.add(position, `line ${number} is not JSON: ${getErrorMessage(thrown)}`);
        continue;
      }
      yield value;
    }
  }

  async function* items() {
    for await (const { content } of inputs) {
      const position = input++;
      const found = readJsonPath(content, path);
      const parts = found.found
        ? (detector?.split(found.value) ?? splitValue(found.value, by ?? "line", delimiter))
        : { reason: found.missing };
      if ("reason" in parts) {
        dropped++;
        reasons.add(position, parts.reason);
        continue;
      }
      for (const part of "lines" in parts ? parseLines(parts.lines, position) : parts.parts) yield { content: part };
    }
  }

  return {
    items: items(),
    report: () => ({ input, dropped, dropped_lines: droppedLines, reasons: reasons.first(), ...detector?.report() }),
  };
}

/** The parts, JSON lines to parse, or why the value cannot be split. */
type SplitParts = { readonly parts: Iterable<Json> } | { readonly lines: string } | { readonly reason: string };
const MAX_PATHS = 10;
const PATH_LIMIT = 200;

function createSplitDetector(path: readonly PathStep[]) {
  const modes = new Set<SplitMode>();
  const paths = new Set<string>();
  let usualSteps: readonly PathStep[] | undefined;
  let textMode: SplitMode | undefined;

  function splitKnown(by: SplitMode, value: Json): SplitParts {
    modes.add(by);
    return splitValue(value, by, "");
  }

  function splitRecord(record: JsonObject) {
    const there = usualSteps === undefined ? undefined : readJsonPath(record, { steps: usualSteps });
    if (usualSteps !== undefined && there?.found && isList(there.value))
      return { steps: usualSteps, parts: splitKnown("items", there.value) };
    const listed = findLongestList(record);
    if (listed === undefined) return undefined;
    usualSteps ??= listed.steps;
    const { found, steps } = listed;
    return { steps, parts: splitKnown(found.by, found.by === "items" ? found.list : found.text) };
  }

  return {
    split(value: Json): SplitParts {
      if (isList(value)) return splitKnown("items", value);
      if (isRecord(value)) {
        const found = splitRecord(value);
        if (found === undefined) return { reason: "it is an object without a list: give the path of a text in it" };
        const at = formatJsonPath([...path, ...found.steps]);
        if (paths.size < MAX_PATHS && at.length <= PATH_LIMIT && at.search(UNSAFE_CHARACTERS) < 0) paths.add(at);
        return found.parts;
      }
      if (typeof value !== "string")
        return { reason: `it is ${addArticle(getJsonKind(value))}, neither a list nor a text` };
      const read = detectTextForm(value);
      if (read.form === "lines") return splitKnown("json_lines", value);
      if (read.form === "text") {
        textMode ??= detectTextSplit(value);
        return splitKnown(textMode, value);
      }
      if (!isRecord(read.value)) return splitKnown("items", read.value);
      return splitRecord(read.value)?.parts ?? { reason: "it is the JSON of an object without a list" };
    },
    report: () => ({ by: [...modes], ...(paths.size === 0 ? {} : { paths: [...paths] }) }),
  };
}

/** A text is split by paragraphs if they have at most this many lines on average. */
const PARAGRAPH_LINES = 10;

function detectTextSplit(text: string): SplitMode {
  let [count, blocks, isOpen] = [0, 0, false];
  for (const line of splitLines(text)) {
    const isBlank = line.trim() === "";
    if (!isBlank && !isOpen) blocks++;
    if (!isBlank) count++;
    isOpen = !isBlank;
  }
  if (count <= 1) return "sentence";
  return blocks > 1 && count <= blocks * PARAGRAPH_LINES ? "paragraph" : "line";
}

function splitValue(value: Json, by: SplitMode, delimiter: string): SplitParts {
  if (by === "items") return splitList(value);
  if (typeof value !== "string") {
    const hint = isList(value) ? ': "items" takes its items' : "";
    return { reason: `it is ${addArticle(getJsonKind(value))}, not a text${hint}` };
  }
  return by === "json_lines" ? { lines: value } : { parts: textSplitters[by](value, delimiter) };
}

const textSplitters = {
  sentence: splitSentences,
  paragraph: splitParagraphs,
  line: splitLines,
  delimiter: splitDelimited,
};

function splitList(value: Json): SplitParts {
  if (isList(value)) return { parts: value };
  if (typeof value !== "string") return { reason: `it is ${addArticle(getJsonKind(value))}, not a list` };
  if (value.trim() === "") return { parts: [] };
  try {
    const parsed = JSON.parse(value) as Json;
    if (isList(parsed)) return { parts: parsed };
    return { reason: `it is the JSON of ${addArticle(getJsonKind(parsed))}, not of a list` };
  } catch (thrown) {
    return { reason: `it is not the JSON of a list: ${getErrorMessage(thrown)}` };
  }
}

function* splitSentences(text: string): Generator<string> {
  for (const { segment } of new Intl.Segmenter("und", { granularity: "sentence" }).segment(text)) yield segment;
}

function* splitParagraphs(text: string): Generator<string> {
  let [start, end] = [-1, 0];
  for (const { from, to } of findLineSpans(text)) {
    if (text.slice(from, to).trim() !== "") {
      if (start < 0) start = from;
      end = to;
    } else if (start >= 0) {
      yield text.slice(start, end);
      start = -1;
    }
  }
  if (start >= 0) yield text.slice(start, end);
}

function* splitLines(text: string): Generator<string> {
  for (const { from, to } of findLineSpans(text)) yield text.slice(from, to);
}

/** A line break ends a line: no empty line follows the last one. */
function* findLineSpans(text: string): Generator<{ readonly from: number; readonly to: number }> {
  let from = 0;
  for (const { index, 0: ending } of text.matchAll(/\r\n|\n|\r/g)) {
    yield { from, to: index };
    from = index + ending.length;
  }
  if (from < text.length) yield { from, to: text.length };
}

function* splitDelimited(text: string, delimiter: string): Generator<string> {
  if (text === "") return;
  let from = 0;
  for (let at = text.indexOf(delimiter); at >= 0; at = text.indexOf(delimiter, from)) {
    yield text.slice(from, at);
    from = at + delimiter.length;
  }
  yield text.slice(from);
}
