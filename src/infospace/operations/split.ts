import { messageOf } from "../../core/errors.ts";
import type { Json } from "../../core/json.ts";
import { isList, kindOf } from "../content.ts";
import { type Path, valueAt } from "../path.ts";
import { createReasons, type Derived, type Inputs, type Reason } from "./derived.ts";
import { aKind } from "./fields.ts";

export const splits = ["sentence", "paragraph", "line", "delimiter", "items", "json_lines"] as const;

/** `items`: those of a list, or of a text that is the JSON of one; `json_lines`: each line of a text is the JSON of one. */
export type Split = (typeof splits)[number];

export interface Splitting {
  readonly by: Split;
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
};

/** The parts in order, with all their white space. Of an empty text or list there are none, which is no failure. */
export function split(inputs: Inputs, { by, path, delimiter }: Splitting): Derived<SplitReport> {
  const reasons = createReasons();
  let input = 0;
  let dropped = 0;
  let droppedLines = 0;

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

  async function* items() {
    for await (const { content } of inputs) {
      const position = input++;
      const found = valueAt(content, path);
      const parts = found.found ? partsOf(found.value, by, delimiter) : { reason: found.missing };
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
    report: () => ({ input, dropped, dropped_lines: droppedLines, reasons: reasons.first() }),
  };
}

type Parts =
  | { readonly of: "parts"; readonly parts: Iterable<Json> }
  | { readonly of: "json_lines"; readonly text: string }
  | { readonly reason: string };

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
