import { UNSAFE_CHARACTERS } from "../../core/display-text.ts";
import { getErrorMessage } from "../../core/errors.ts";
import { isRecord, type Json, type JsonObject } from "../../core/json.ts";
import { formatJsonPath, type JsonPath, type PathStep, readJsonPath } from "../json-path.ts";
import { getJsonKind, isList } from "../json-preview.ts";
import { detectTextForm } from "../json-text.ts";
import { findLongestList } from "../large-part.ts";
import { addArticle, createReasonLog, type DerivedItems, type ItemReason, type PrimitiveItems } from "./operation.ts";

export const splitModes = ["sentence", "paragraph", "line", "delimiter", "items", "json_lines"] as const;

/** `items`: those of a list, or of a text that is the JSON of one; `json_lines`: each line of a text is the JSON of one. */
export type SplitMode = (typeof splitModes)[number];

export interface SplitOptions {
  /**
   * Absent: found out item by item. Of an object its longest list; of a text the list that it is the JSON or the JSON lines
   * of, else as the first text was: by paragraphs where those are short, by lines where there are several, by sentences.
   */
  readonly by?: SplitMode | undefined;
  readonly path: JsonPath;
  readonly delimiter: string;
}

export type SplitReport = {
  readonly input: number;
  /** Items that are nothing that can be taken apart so. */
  readonly dropped: number;
  /** Lines that are not JSON. */
  readonly dropped_lines: number;
  readonly reasons: readonly ItemReason[];
  /** What was found out, each once. */
  readonly by?: readonly SplitMode[];
  /** Where in objects the lists were that were found. */
  readonly paths?: readonly string[];
};

const PATHS_TOLD = 10;
const PATH_LIMIT = 200;

/** The parts in order, with all their white space. Of an empty text or list there are none, which is no failure. */
export function splitItems(inputs: PrimitiveItems, { by, path, delimiter }: SplitOptions): DerivedItems<SplitReport> {
  const reasons = createReasonLog();
  let input = 0;
  let dropped = 0;
  let droppedLines = 0;
  const finder = by === undefined ? createSplitDetector(path.steps) : undefined;

  function* values(text: string, position: number): Generator<Json> {
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

  const splitContent = (value: Json): SplitParts =>
    finder === undefined ? splitValue(value, by ?? "line", delimiter) : finder.parts(value);

  async function* items() {
    for await (const { content } of inputs) {
      const position = input++;
      const found = readJsonPath(content, path);
      const parts = found.found ? splitContent(found.value) : { reason: found.missing };
      if ("reason" in parts) {
        dropped++;
        reasons.add(position, parts.reason);
        continue;
      }
      const made = parts.of === "json_lines" ? values(parts.text, position) : parts.parts;
      for (const each of made) yield { content: each };
    }
  }

  return {
    items: items(),
    report: () => ({ input, dropped, dropped_lines: droppedLines, reasons: reasons.first(), ...finder?.told() }),
  };
}

type SplitParts =
  | { readonly of: "parts"; readonly parts: Iterable<Json> }
  | { readonly of: "json_lines"; readonly text: string }
  | { readonly reason: string };

/** Finds out how items are taken apart, those that are alike in the same way. */
function createSplitDetector(path: readonly PathStep[]) {
  const modes = new Set<SplitMode>();
  const paths = new Set<string>();
  let usual: readonly PathStep[] | undefined;
  let ofTexts: SplitMode | undefined;

  function addPath(text: string): void {
    if (paths.size < PATHS_TOLD && text.length <= PATH_LIMIT && text.search(UNSAFE_CHARACTERS) < 0) paths.add(text);
  }

  function splitKnown(by: SplitMode, value: Json): SplitParts {
    modes.add(by);
    return splitValue(value, by, "");
  }

  function splitRecord(
    record: JsonObject,
  ): { readonly steps: readonly PathStep[]; readonly parts: SplitParts } | undefined {
    const there = usual === undefined ? undefined : readJsonPath(record, { steps: usual });
    if (usual !== undefined && there?.found && isList(there.value))
      return { steps: usual, parts: splitKnown("items", there.value) };
    const listed = findLongestList(record);
    if (listed === undefined) return undefined;
    usual ??= listed.steps;
    const { found, steps } = listed;
    return { steps, parts: splitKnown(found.by, found.by === "items" ? found.list : found.text) };
  }

  return {
    parts(value: Json): SplitParts {
      if (isList(value)) return splitKnown("items", value);
      if (isRecord(value)) {
        const found = splitRecord(value);
        if (found === undefined) return { reason: "it is an object without a list: give the path of a text in it" };
        addPath(formatJsonPath([...path, ...found.steps]));
        return found.parts;
      }
      if (typeof value !== "string")
        return { reason: `it is ${addArticle(getJsonKind(value))}, neither a list nor a text` };
      const read = detectTextForm(value);
      if (read.form === "lines") return splitKnown("json_lines", value);
      if (read.form === "text") {
        ofTexts ??= detectTextSplit(value);
        return splitKnown(ofTexts, value);
      }
      if (!isRecord(read.value)) return splitKnown("items", read.value);
      return splitRecord(read.value)?.parts ?? { reason: "it is the JSON of an object without a list" };
    },
    told: () => ({ by: [...modes], ...(paths.size === 0 ? {} : { paths: [...paths] }) }),
  };
}

/** How long paragraphs are on average, in lines, where they are what a text is made of. */
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
  switch (by) {
    case "json_lines":
      return { of: by, text: value };
    case "sentence":
      return { of: "parts", parts: splitSentences(value) };
    case "paragraph":
      return { of: "parts", parts: splitParagraphs(value) };
    case "line":
      return { of: "parts", parts: splitLines(value) };
    case "delimiter":
      return { of: "parts", parts: splitDelimited(value, delimiter) };
  }
}

function splitList(value: Json): SplitParts {
  if (isList(value)) return { of: "parts", parts: value };
  if (typeof value !== "string") return { reason: `it is ${addArticle(getJsonKind(value))}, not a list` };
  if (value.trim() === "") return { of: "parts", parts: [] };
  try {
    const parsed = JSON.parse(value) as Json;
    return isList(parsed)
      ? { of: "parts", parts: parsed }
      : { reason: `it is the JSON of ${addArticle(getJsonKind(parsed))}, not of a list` };
  } catch (thrown) {
    return { reason: `it is not the JSON of a list: ${getErrorMessage(thrown)}` };
  }
}

function* splitSentences(text: string): Generator<string> {
  for (const { segment } of new Intl.Segmenter("und", { granularity: "sentence" }).segment(text)) yield segment;
}

/** What lies between lines that are empty or blank. */
function* splitParagraphs(text: string): Generator<string> {
  let start = -1;
  let end = 0;
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

/** A line break ends a line, so there is none after the last. */
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
