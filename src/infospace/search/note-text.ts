import { clip, type Json, type JsonObject } from "../../core/json.ts";

/**
 * How long a passage is: as much of it as is embedded, so that search by meaning and by words look at the same text.
 * Where one ends, the next begins a little before.
 */
export const PASSAGE = 1_200;
const OVERLAP = 150;

const DEPTH = 100;
const INDENTED = 8;
const LABELS = 20;
const LABEL_LIMIT = 100;

/** What a content says, as people read it, and whether that is all of it. */
export interface Readable {
  readonly text: string;
  readonly whole: boolean;
}

/** A text as it is; of everything else keys and values, a line each. At most `limit` characters. */
export function readable(content: Json, limit: number): Readable {
  if (typeof content === "string") return bounded(content, limit);
  const lines: string[] = [];
  let length = 0;
  let whole = true;
  const add = (line: string): void => {
    lines.push(line);
    length += line.length + 1;
  };
  const walk = (value: Json, label: string, depth: number): void => {
    if (length > limit || depth > DEPTH) {
      whole = false;
      return;
    }
    if (typeof value !== "object" || value === null) {
      add(`${label}${value}`);
      return;
    }
    const parts: readonly (readonly [string, Json])[] = Array.isArray(value)
      ? value.map((part: Json) => ["- ", part] as const)
      : Object.entries(value as JsonObject).map(([key, part]) => [`${key}: `, part] as const);
    if (label !== "" && label.trim() !== "-") add(label.trimEnd());
    const indent = label === "" ? "" : " ".repeat(Math.min(depth, INDENTED));
    for (const [own, part] of parts) walk(part, indent + own, depth + 1);
  };
  walk(content, "", 0);
  const { text, whole: fits } = bounded(lines.join("\n"), limit);
  return { text, whole: whole && fits };
}

function bounded(text: string, limit: number): Readable {
  return text.length <= limit ? { text, whole: true } : { text: text.slice(0, limit), whole: false };
}

/** What is known of something beside what it says, a label each. */
export function labelsOf(properties: JsonObject): readonly string[] {
  return Object.entries(properties)
    .slice(0, LABELS)
    .map(([key, value]) => clip(`${key} ${readable(value, LABEL_LIMIT).text}`, LABEL_LIMIT));
}

/** The parts of a text that are looked through one by one, in order, cut where a paragraph, line or word ends. */
export function* passagesOf(text: string): Generator<string> {
  for (let from = 0; ; ) {
    if (text.length - from <= PASSAGE) return yield copied(text.slice(from));
    const end = endAfter(text, from);
    yield copied(text.slice(from, end));
    from = beginBefore(text, from, end);
  }
}

/** A part of a text keeps all of it in memory, for as long as anybody remembers one of its words. */
function copied(part: string): string {
  return Buffer.from(part, "utf16le").toString("utf16le");
}

const BORDERS = [/\n\s*\n/g, /\n/g, /[.!?。！？]\s*/gu, /\s/g];

function endAfter(text: string, from: number): number {
  const least = from + PASSAGE / 2;
  const window = text.slice(least, from + PASSAGE);
  for (const border of BORDERS) {
    const last = [...window.matchAll(border)].at(-1);
    if (last !== undefined) return least + last.index + last[0].length;
  }
  return wholeCharacter(text, from + PASSAGE);
}

/** At a border too, where there is one: half a word would be found as a word. */
function beginBefore(text: string, from: number, end: number): number {
  const earliest = Math.max(from + 1, end - OVERLAP);
  const border = text.slice(earliest, end).search(/\s\S/);
  return border < 0 ? wholeCharacter(text, earliest) : earliest + border + 1;
}

function wholeCharacter(text: string, at: number): number {
  return /[\uDC00-\uDFFF]/.test(text[at] ?? "") && /[\uD800-\uDBFF]/.test(text[at - 1] ?? "") ? at - 1 : at;
}
