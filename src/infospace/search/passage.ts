import type { Action } from "../../core/action.ts";
import { clip, type Json, type JsonObject } from "../../core/json.ts";
import { type ActionName, actionName } from "../../core/names.ts";
import type { ResourceKind } from "../note.ts";

/** Characters of a passage: what an embedder takes, so that keyword and semantic search see the same text. */
export const PASSAGE_LENGTH = 1_200;
const OVERLAP = 150;
const MAX_DEPTH = 100;
const MAX_INDENT = 8;
const MAX_LABELS = 20;
const LABEL_LIMIT = 100;

/** `whole`: nothing was cut. */
export type ReadableText = Readonly<{ text: string; whole: boolean }>;

/** A text as it is, or one line per key and value. At most `limit` characters. */
export function extractNoteText(content: Json, limit: number): ReadableText {
  if (typeof content === "string") return truncate(content, limit);
  const lines: string[] = [];
  let length = 0;
  let whole = true;
  const add = (line: string): void => {
    lines.push(line);
    length += line.length + 1;
  };
  const walk = (value: Json, label: string, depth: number): void => {
    if (length > limit || depth > MAX_DEPTH) {
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
    const indent = label === "" ? "" : " ".repeat(Math.min(depth, MAX_INDENT));
    for (const [own, part] of parts) walk(part, indent + own, depth + 1);
  };
  walk(content, "", 0);
  const { text, whole: fits } = truncate(lines.join("\n"), limit);
  return { text, whole: whole && fits };
}

function truncate(text: string, limit: number): ReadableText {
  return text.length <= limit ? { text, whole: true } : { text: text.slice(0, limit), whole: false };
}

export function toLabels(properties: JsonObject): readonly string[] {
  return Object.entries(properties)
    .slice(0, MAX_LABELS)
    .map(([key, value]) => clip(`${key} ${extractNoteText(value, LABEL_LIMIT).text}`, LABEL_LIMIT));
}

/** Cuts a text into overlapping passages at the ends of paragraphs, lines or words. */
export function* splitPassages(text: string): Generator<string> {
  for (let from = 0; ; ) {
    if (text.length - from <= PASSAGE_LENGTH) return yield copyText(text.slice(from));
    const end = findPassageEnd(text, from);
    yield copyText(text.slice(from, end));
    from = findNextStart(text, from, end);
  }
}

/** A slice of a string keeps the whole string in memory, so the passage is copied. */
function copyText(part: string): string {
  return Buffer.from(part, "utf16le").toString("utf16le");
}

const BORDERS = [/\n\s*\n/g, /\n/g, /[.!?。！？]\s*/gu, /\s/g];

function findPassageEnd(text: string, from: number): number {
  const least = from + PASSAGE_LENGTH / 2;
  const window = text.slice(least, from + PASSAGE_LENGTH);
  for (const border of BORDERS) {
    const last = [...window.matchAll(border)].at(-1);
    if (last !== undefined) return least + last.index + last[0].length;
  }
  return alignToCharacter(text, from + PASSAGE_LENGTH);
}

/** At a word border if there is one: half a word would be found as a word. */
function findNextStart(text: string, from: number, end: number): number {
  const earliest = Math.max(from + 1, end - OVERLAP);
  const border = text.slice(earliest, end).search(/\s\S/);
  return border < 0 ? alignToCharacter(text, earliest) : earliest + border + 1;
}

function alignToCharacter(text: string, at: number): number {
  return /[\uDC00-\uDFFF]/.test(text[at] ?? "") && /[\uD800-\uDBFF]/.test(text[at - 1] ?? "") ? at - 1 : at;
}

/** The searchable text of a note or collection. */
export interface NoteDocument extends ReadableText {
  readonly id: number;
  readonly hash: string;
  readonly name?: string | undefined;
  readonly labels: readonly string[];
  /** The path or address of the document. Its words are found but not embedded, so that moving it changes no vector. */
  readonly place?: string;
}

const NAME_LIMIT = 100;

export class TextGone extends Error {
  override readonly name = "TextGone";
}

/**
 * A part of a note or collection in the form of an action, which the search index takes. It cannot be called. It holds its
 * text only while it is indexed or embedded, because the index takes as much memory again.
 */
export class Passage implements Action {
  readonly name: ActionName;
  readonly tags: readonly string[];
  readonly aliases: readonly string[];
  readonly id: number;
  /** Its number in the document, from 0. */
  readonly at: number;
  #text: string | undefined;

  constructor(kind: ResourceKind, { id, name, labels, place }: NoteDocument, at: number, text: string) {
    this.name = createPassageName(kind, name, id, at);
    this.tags = labels;
    this.aliases = [
      ...(name === undefined || at > 0 ? [] : [clip(name, NAME_LIMIT)]),
      ...(place === undefined ? [] : [place]),
    ];
    this.id = id;
    this.at = at;
    this.#text = text;
  }

  get hasText(): boolean {
    return this.#text !== undefined;
  }

  remember(text: string): void {
    this.#text = text;
  }

  forget(): void {
    this.#text = undefined;
  }

  get description(): string {
    if (this.#text === undefined) throw new TextGone();
    return this.#text;
  }

  // Getters take no memory per passage.
  get category() {
    return "note";
  }
  get entry(): string {
    return this.name;
  }
  get inputSchema() {
    return NOTHING;
  }
  get effect() {
    return "read" as const;
  }
  get examples() {
    return NONE;
  }
  get scope() {
    return "generalist" as const;
  }
  get routing() {
    return "routed" as const;
  }
  get peerExposed(): boolean {
    return false;
  }
  get idempotent(): boolean {
    return true;
  }
  run(): undefined {
    return undefined;
  }
}

const NOTHING = Object.freeze({});
const NONE = Object.freeze([]);

/**
 * The name in words, then id and number in signs that are not words. Digits would make a note findable by its id, and equal
 * texts of two notes different.
 */
function createPassageName(kind: ResourceKind, name: string | undefined, id: number, at: number): ActionName {
  const words = clip((name ?? "").normalize("NFC"), NAME_LIMIT).match(/[\p{L}\p{N}\p{M}]+/gu) ?? [];
  return actionName(kind, `${words.join("-")}_${encodeDigits(id)}_${encodeDigits(at)}`);
}

const SIGNS = ".:/@+~-";

function encodeDigits(number: number): string {
  return number.toString(SIGNS.length).replace(/\d/g, (digit) => SIGNS[Number(digit)] ?? "");
}
