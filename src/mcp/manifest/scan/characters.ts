import { isDisguised } from "../../../core/lookalikes.ts";
import type { Finding } from "./finding.ts";

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
export function charactersFound(text: string, isName: boolean): readonly Finding[] {
  if (ORDINARY.test(text)) return [];
  return [...hidden(text, isName), ...disguised(text, isName)].map(({ at, ...rest }) => ({
    ...rest,
    from: at,
    to: at + 1,
  }));
}

type Found = Pick<Finding, "kind" | "severity"> & { readonly at: number };

function hidden(text: string, isName: boolean): readonly Found[] {
  const kind = "hidden_characters";
  let first: number | undefined;
  let count = 0;
  for (const { 0: character, index: at } of text.matchAll(HIDDEN)) {
    if (isInPlace(text, character, at)) continue;
    const isTelling = NEVER.test(character) || ESCAPES.includes(character) || isInside(text, at);
    if (isTelling || isName || ++count === MANY) return [{ kind, severity: "serious", at }];
    first ??= at;
  }
  const selectors = text.search(SELECTORS);
  if (selectors >= 0) return [{ kind, severity: "serious", at: selectors }];
  return first === undefined ? [] : [{ kind, severity: "mild", at: first }];
}

/** Line ends and tabs; one selector after what has variants; joiners in scripts that are written with them, and in emoji. */
function isInPlace(text: string, character: string, at: number): boolean {
  if ("\t\n\r".includes(character)) return true;
  const before = text.codePointAt(at - 1) ?? 0;
  if (JOINERS.includes(character)) return before > 0x24f;
  const after = String.fromCodePoint(text.codePointAt(at + character.length) ?? 0);
  return SELECTOR.test(character) && (before > 0x7f || after === KEYCAP) && !SELECTOR.test(after);
}

/** Whether it parts what would be one word. */
function isInside(text: string, at: number): boolean {
  return !CONTROL.test(text[at] ?? "") && LETTER.test(text[at - 1] ?? "") && LETTER.test(text[at + 1] ?? "");
}

function disguised(text: string, isName: boolean): readonly Found[] {
  const kind = "disguised_letters";
  for (const { 0: word, index: at } of text.matchAll(WORD)) {
    if (word.length >= 3 && isDisguised(word)) return [{ kind, severity: "serious", at }];
  }
  const at = text.search(STYLED);
  return at < 0 ? [] : [{ kind, severity: isName ? "serious" : "mild", at }];
}
