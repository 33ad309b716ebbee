import { isDisguised } from "../../../core/display-text.ts";
import type { FindingKind, FindingSeverity, TextFinding } from "./finding.ts";

const BASE64 = /[A-Za-z0-9+/_-]{32,}/g;
const HEX = /^[0-9a-fA-F]+$/;
/** Characters of a long run that are decoded to see whether it is text. */
const SAMPLE = 4_000;
/** Spaces in a row, and empty lines in a row, that hide the text after them. */
const WIDE = 100;
const HIGH = 15;
/** People do not read this far, but a model does. */
const LONG = 8_000;

/** Finds encoded text, and text hidden behind much white space or at the end of a very long text. */
export function findEncodedText(text: string): readonly TextFinding[] {
  const found: TextFinding[] = [];
  if (text.length < 32) return found;
  for (const { 0: run, index: from } of text.matchAll(BASE64)) {
    const sample = run.slice(0, SAMPLE);
    const decoded = Buffer.from(sample, HEX.test(sample) ? "hex" : "base64").toString("latin1");
    if (!isProse(decoded)) continue;
    found.push({ kind: "encoded_text", severity: "serious", from, to: from + run.length });
    break;
  }
  for (const { 0: space, index } of text.matchAll(/\s{20,}/g)) {
    const from = index + space.length;
    if (from === text.length || index === 0) continue;
    if (space.length < WIDE && space.split("\n").length <= HIGH) continue;
    found.push({ kind: "hidden_tail", severity: "serious", from, to: from + 1 });
    break;
  }
  if (text.length > LONG) found.push({ kind: "hidden_tail", severity: "mild", from: LONG, to: LONG + 1 });
  return found;
}

function isProse(text: string): boolean {
  const readable = text.match(/[\x20-\x7E\n]/g)?.length ?? 0;
  const spaces = text.match(/[a-z,.] [A-Za-z~/.]/g)?.length ?? 0;
  return readable >= text.length * 0.95 && spaces >= 3;
}

const ORDINARY = /^[\t\n\r\x20-\x7E]*$/;
const WORD = /[\p{L}\p{M}]+/gu;
const HIDDEN = /[\p{Default_Ignorable_Code_Point}\p{Cc}]/gu;
// Tag characters and direction overrides have no honest use in a definition.
const NEVER = /[\u202A-\u202E\u2066-\u2069\u{E0000}-\u{E007F}]/u;
// One selector chooses a variant of the character before it. Several in a row encode data.
const SELECTORS = /[\uFE00-\uFE0F\u{E0100}-\u{E01EF}]{2}/u;
const SELECTOR = /[\uFE00-\uFE0F\u{E0100}-\u{E01EF}]/u;
const CONTROL = /\p{Cc}/u;
const STYLED = /[\u{1D400}-\u{1D7FF}]{3}/u;
const LETTER = /[\p{L}\p{N}]/u;
const KEYCAP = "\u20E3";
const JOINERS = "\u200C\u200D";
const ESCAPES = "\u001B\u009B\b\u007F";
/** One hidden character may have been copied by accident, this many were not. */
const MANY = 3;

/** Finds invisible characters, characters that a terminal acts on, and letters that look like others. */
export function findHiddenCharacters(text: string, isName: boolean): readonly TextFinding[] {
  if (ORDINARY.test(text)) return [];
  return [scanHidden(text, isName), scanDisguised(text, isName)].filter((finding) => finding !== undefined);
}

function scanHidden(text: string, isName: boolean): TextFinding | undefined {
  const createFinding = (severity: FindingSeverity, at: number) => toFinding("hidden_characters", severity, at);
  let first: number | undefined;
  let count = 0;
  for (const { 0: character, index: at } of text.matchAll(HIDDEN)) {
    if (isExpected(text, character, at)) continue;
    const isTelling = NEVER.test(character) || ESCAPES.includes(character) || isInsideWord(text, at);
    if (isTelling || isName || ++count === MANY) return createFinding("serious", at);
    first ??= at;
  }
  const selectors = text.search(SELECTORS);
  if (selectors >= 0) return createFinding("serious", selectors);
  return first === undefined ? undefined : createFinding("mild", first);
}

function toFinding(kind: FindingKind, severity: FindingSeverity, from: number): TextFinding {
  return { kind, severity, from, to: from + 1 };
}

/** Line ends, tabs, a single variant selector, and joiners in emoji and in scripts that need them. */
function isExpected(text: string, character: string, at: number): boolean {
  if ("\t\n\r".includes(character)) return true;
  const before = text.codePointAt(at - 1) ?? 0;
  if (JOINERS.includes(character)) return before > 0x24f;
  const after = String.fromCodePoint(text.codePointAt(at + character.length) ?? 0);
  return SELECTOR.test(character) && (before > 0x7f || after === KEYCAP) && !SELECTOR.test(after);
}

const isInsideWord = (text: string, at: number): boolean =>
  !CONTROL.test(text[at] ?? "") && LETTER.test(text[at - 1] ?? "") && LETTER.test(text[at + 1] ?? "");

function scanDisguised(text: string, isName: boolean): TextFinding | undefined {
  const kind = "disguised_letters";
  for (const { 0: word, index } of text.matchAll(WORD))
    if (word.length >= 3 && isDisguised(word)) return toFinding(kind, "serious", index);
  const at = text.search(STYLED);
  return at < 0 ? undefined : toFinding(kind, isName ? "serious" : "mild", at);
}
