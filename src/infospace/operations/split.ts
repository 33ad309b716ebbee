import { messageOf } from "../../core/errors.ts";
import { isRecord, type Json, type JsonObject } from "../../core/json.ts";
import { UNSAFE } from "../../core/plain-text.ts";
import { isList, kindOf } from "../content.ts";
import { listIn } from "../large-part.ts";
import { type Path, pathText, type Step, valueAt } from "../path.ts";
import { textForm } from "../text-form.ts";
import { createReasons, type Derived, type Inputs, type Reason } from "./derived.ts";
import { aKind } from "./fields.ts";

export const splits = ["sentence", "paragraph", "line", "delimiter", "items", "json_lines"] as const;

/** `items`: those of a list, or of a text that is the JSON of one; `json_lines`: each line of a text is the JSON of one. */
export type Split = (typeof splits)[number];

export interface Splitting {
  /**
   * Absent: found out item by item. Of an object its longest list; of a text the list that it is the JSON or the JSON lines
   * of, else as the first text was: by paragraphs where those are short, by lines where there are several, by sentences.
   */
  readonly by?: Split | undefined;
  readonly path: Path;
  readonly delimiter: string;
}

export type SplitReport = {
  readonly input: number;
  /** Items that are nothing that can be taken apart so. */
  readonly dropped: number;
  /** Lines that are not JSON. */
  readonly dropped_lines: number;
  readonly reasons: readonly Reason[];
  /** What was found out, each once. */
  readonly by?: readonly Split[];
  /** Where in objects the lists were that were found. */
  readonly paths?: readonly string[];
};

const PATHS_TOLD = 10;
const PATH_LIMIT = 200;

/** The parts in order, with all their white space. Of an empty text or list there are none, which is no failure. */
export function split(inputs: Inputs, { by, path, delimiter }: Splitting): Derived<SplitReport> {
  const reasons = createReasons();
  let input = 0;
  let dropped = 0;
  let droppedLines = 0;
  const finder = by === undefined ? createFinder(path.steps) : undefined;

  function* values(text: string, position: number): Generator<Json> {
    let number = 0;
    for (const line of lines(text)) {
      number++;
      if (line.trim() === "") continue;
      let value: Json;
      try {
        value = JSON.parse(line) as Json;
      } catch (thrown) {
        droppedLines++;
        reasons.add(position, `line ${number} is not JSON: ${messageOf(thrown)}`);
        continue;
      }
      yield value;
    }
  }

  const apart = (value: Json): Parts =>
    finder === undefined ? partsOf(value, by ?? "line", delimiter) : finder.parts(value);

  async function* items() {
    for await (const { content } of inputs) {
      const position = input++;
      const found = valueAt(content, path);
      const parts = found.found ? apart(found.value) : { reason: found.missing };
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

type Parts =
  | { readonly of: "parts"; readonly parts: Iterable<Json> }
  | { readonly of: "json_lines"; readonly text: string }
  | { readonly reason: string };

/** Finds out how items are taken apart, those that are alike in the same way. */
function createFinder(path: readonly Step[]) {
  const ways = new Set<Split>();
  const paths = new Set<string>();
  let usual: readonly Step[] | undefined;
  let ofTexts: Split | undefined;

  function tell(text: string): void {
    if (paths.size < PATHS_TOLD && text.length <= PATH_LIMIT && text.search(UNSAFE) < 0) paths.add(text);
  }

  function taken(by: Split, value: Json): Parts {
    ways.add(by);
    return partsOf(value, by, "");
  }

  function inRecord(record: JsonObject): { readonly steps: readonly Step[]; readonly parts: Parts } | undefined {
    const there = usual === undefined ? undefined : valueAt(record, { steps: usual });
    if (usual !== undefined && there?.found && isList(there.value))
      return { steps: usual, parts: taken("items", there.value) };
    const listed = listIn(record);
    if (listed === undefined) return undefined;
    usual ??= listed.steps;
    const { found, steps } = listed;
    return { steps, parts: taken(found.by, found.by === "items" ? found.list : found.text) };
  }

  return {
    parts(value: Json): Parts {
      if (isList(value)) return taken("items", value);
      if (isRecord(value)) {
        const found = inRecord(value);
        if (found === undefined) return { reason: "it is an object without a list: give the path of a text in it" };
        tell(pathText([...path, ...found.steps]));
        return found.parts;
      }
      if (typeof value !== "string") return { reason: `it is ${aKind(kindOf(value))}, neither a list nor a text` };
      const read = textForm(value);
      if (read.form === "lines") return taken("json_lines", value);
      if (read.form === "text") {
        ofTexts ??= wayOf(value);
        return taken(ofTexts, value);
      }
      if (!isRecord(read.value)) return taken("items", read.value);
      return inRecord(read.value)?.parts ?? { reason: "it is the JSON of an object without a list" };
    },
    told: () => ({ by: [...ways], ...(paths.size === 0 ? {} : { paths: [...paths] }) }),
  };
}

/** How long paragraphs are on average, in lines, where they are what a text is made of. */
const PARAGRAPH_LINES = 10;

function wayOf(text: string): Split {
  let [count, blocks, isOpen] = [0, 0, false];
  for (const line of lines(text)) {
    const isBlank = line.trim() === "";
    if (!isBlank && !isOpen) blocks++;
    if (!isBlank) count++;
    isOpen = !isBlank;
  }
  if (count <= 1) return "sentence";
  return blocks > 1 && count <= blocks * PARAGRAPH_LINES ? "paragraph" : "line";
}

function partsOf(value: Json, by: Split, delimiter: string): Parts {
  if (by === "items") return listParts(value);
  if (typeof value !== "string") {
    const hint = isList(value) ? ': "items" takes its items' : "";
    return { reason: `it is ${aKind(kindOf(value))}, not a text${hint}` };
  }
  switch (by) {
    case "json_lines":
      return { of: by, text: value };
    case "sentence":
      return { of: "parts", parts: sentences(value) };
    case "paragraph":
      return { of: "parts", parts: paragraphs(value) };
    case "line":
      return { of: "parts", parts: lines(value) };
    case "delimiter":
      return { of: "parts", parts: between(value, delimiter) };
  }
}

function listParts(value: Json): Parts {
  if (isList(value)) return { of: "parts", parts: value };
  if (typeof value !== "string") return { reason: `it is ${aKind(kindOf(value))}, not a list` };
  if (value.trim() === "") return { of: "parts", parts: [] };
  try {
    const parsed = JSON.parse(value) as Json;
    return isList(parsed)
      ? { of: "parts", parts: parsed }
      : { reason: `it is the JSON of ${aKind(kindOf(parsed))}, not of a list` };
  } catch (thrown) {
    return { reason: `it is not the JSON of a list: ${messageOf(thrown)}` };
  }
}

function* sentences(text: string): Generator<string> {
  for (const { segment } of new Intl.Segmenter("und", { granularity: "sentence" }).segment(text)) yield segment;
}

/** What lies between lines that are empty or blank. */
function* paragraphs(text: string): Generator<string> {
  let start = -1;
  let end = 0;
  for (const { from, to } of lineSpans(text)) {
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

function* lines(text: string): Generator<string> {
  for (const { from, to } of lineSpans(text)) yield text.slice(from, to);
}

/** A line break ends a line, so there is none after the last. */
function* lineSpans(text: string): Generator<{ readonly from: number; readonly to: number }> {
  let from = 0;
  for (const { index, 0: ending } of text.matchAll(/\r\n|\n|\r/g)) {
    yield { from, to: index };
    from = index + ending.length;
  }
  if (from < text.length) yield { from, to: text.length };
}

function* between(text: string, delimiter: string): Generator<string> {
  if (text === "") return;
  let from = 0;
  for (let at = text.indexOf(delimiter); at >= 0; at = text.indexOf(delimiter, from)) {
    yield text.slice(from, at);
    from = at + delimiter.length;
  }
  yield text.slice(from);
}
