import { Buffer } from "node:buffer";
import { isDisguised } from "../../../core/display-text.ts";
import type { TextFinding } from "./finding.ts";

const BASE64 = /[A-Za-z0-9+/_-]{32,}/g;
const HEX = /^[0-9a-fA-F]+$/;
/** So many characters of a long run tell whether it is text. */
const SAMPLE = 4_000;
/** Space that nobody scrolls through. */
const WIDE = 100;
const SPACE = /\s{20,}/g;
const HIGH = 15;
/** Nobody reads so far, and a model does. */
const LONG = 8_000;

/** Text that one has to decode to read it, and text behind so much space that nobody sees it. */
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
  for (const { 0: space, index } of text.matchAll(SPACE)) {
    const from = index + space.length;
    if (from === text.length || index === 0) continue;
    if (space.length < WIDE && space.split("\n").length <= HIGH) continue;
    found.push({ kind: "hidden_tail", severity: "serious", from, to: from + 1 });
    break;
  }
  if (text.length > LONG) found.push({ kind: "hidden_tail", severity: "mild", from: LONG, to: LONG + 1 });
  return found;
}

/** Whether it is made of words: letters and spaces, nearly all of it. */
function isProse(text: string): boolean {
  const readable = text.match(/[\x20-\x7E\n]/g)?.length ?? 0;
  const spaces = text.match(/[a-z,.] [A-Za-z~/.]/g)?.length ?? 0;
  return readable >= text.length * 0.95 && spaces >= 3;
}

const ORDINARY = /^[\t\n\r\x20-\x7E]*$/;
const WORD = /[\p{L}\p{M}]+/gu;
const HIDDEN = /[\p{Default_Ignorable_Code_Point}\p{Cc}]/gu;
// Tags, and what turns the direction of writing: nobody writes these by accident.
const NEVER = /[\u202A-\u202E\u2066-\u2069\u{E0000}-\u{E007F}]/u;
// One of them chooses a variant of the character before it; several in a row hold data.
const SELECTORS = /[\uFE00-\uFE0F\u{E0100}-\u{E01EF}]{2}/u;
const SELECTOR = /[\uFE00-\uFE0F\u{E0100}-\u{E01EF}]/u;
const CONTROL = /\p{Cc}/u;
const STYLED = /[\u{1D400}-\u{1D7FF}]{3}/u;
const LETTER = /[\p{L}\p{N}]/u;
const KEYCAP = "\u20E3";
const JOINERS = "\u200C\u200D";
const ESCAPES = "\u001B\u009B\b\u007F";
/** So many are no accident, as one is that was copied along with a text. */
const MANY = 3;

/** Characters that nobody sees or that a terminal acts on, and letters that pass for others. */
export function findHiddenCharacters(text: string, isName: boolean): readonly TextFinding[] {
  if (ORDINARY.test(text)) return [];
  return [...scanHidden(text, isName), ...scanDisguised(text, isName)].map(({ at, ...rest }) => ({
    ...rest,
    from: at,
    to: at + 1,
  }));
}

type CharacterMatch = Pick<TextFinding, "kind" | "severity"> & { readonly at: number };

function scanHidden(text: string, isName: boolean): readonly CharacterMatch[] {
  const kind = "hidden_characters";
  let first: number | undefined;
  let count = 0;
  for (const { 0: character, index: at } of text.matchAll(HIDDEN)) {
    if (isExpected(text, character, at)) continue;
    const isTelling = NEVER.test(character) || ESCAPES.includes(character) || isInsideWord(text, at);
    if (isTelling || isName || ++count === MANY) return [{ kind, severity: "serious", at }];
    first ??= at;
  }
  const selectors = text.search(SELECTORS);
  if (selectors >= 0) return [{ kind, severity: "serious", at: selectors }];
  return first === undefined ? [] : [{ kind, severity: "mild", at: first }];
}

/** Line ends and tabs; one selector after what has variants; joiners in scripts that are written with them, and in emoji. */
function isExpected(text: string, character: string, at: number): boolean {
  if ("\t\n\r".includes(character)) return true;
  const before = text.codePointAt(at - 1) ?? 0;
  if (JOINERS.includes(character)) return before > 0x24f;
  const after = String.fromCodePoint(text.codePointAt(at + character.length) ?? 0);
  return SELECTOR.test(character) && (before > 0x7f || after === KEYCAP) && !SELECTOR.test(after);
}

/** Whether it parts what would be one word. */
function isInsideWord(text: string, at: number): boolean {
  return !CONTROL.test(text[at] ?? "") && LETTER.test(text[at - 1] ?? "") && LETTER.test(text[at + 1] ?? "");
}

function scanDisguised(text: string, isName: boolean): readonly CharacterMatch[] {
  const kind = "disguised_letters";
  for (const { 0: word, index: at } of text.matchAll(WORD)) {
    if (word.length >= 3 && isDisguised(word)) return [{ kind, severity: "serious", at }];
  }
  const at = text.search(STYLED);
  return at < 0 ? [] : [{ kind, severity: isName ? "serious" : "mild", at }];
}
