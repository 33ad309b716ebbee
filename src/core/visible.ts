import { disguisesIn, latinFor } from "./lookalikes.ts";
import { UNSAFE } from "./plain-text.ts";

/**
 * What has no shape of its own beside what is never safe to show: joiners, fillers, soft hyphens, selectors of variants,
 * halves of pairs. Emoji and some scripts need a few of them; whoever compares two texts must see them nevertheless.
 */
const SHAPELESS = /[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Surrogate}\u2800]/gu;

/** Spaces, signs and styled letters that look like an ASCII character. */
const LIKE_ASCII =
  /[\u00A0\u0131\u0251\u0261\u01C0\u02B9\u02BC\u1680\u2000-\u200A\u202F\u205F\u3000\u01C3\u037E\u0589\u05C3\u2010\u2011\u2024\u2044\u2113\u212A\u2160-\u217F\u2212\u2215\u2216\u2223\u2236\u29F5\u29F8\u29F9\u2C80-\u2CF3\uA4D0-\uA4FF\uA789\uFE68\uFF01-\uFF5E\u{1D400}-\u{1D7FF}]/gu;

/** What is written from right to left turns what stands between two such texts, such as the order of two arguments. */
const FROM_RIGHT = /[\u0590-\u08FF\uFB1D-\uFDFF\uFE70-\uFEFC\u{10800}-\u{10FFF}\u{1E800}-\u{1EFFF}]/u;

const WORD = /[\p{L}\p{M}]+/gu;
/** A word of a JSON text, or an escape, whose letter belongs to no word. */
const JSON_WORD = /\\(?:u[0-9a-f]{4}|.)|[\p{L}\p{M}]+/gu;
const NOT_ASCII = /\P{ASCII}/gu;
const ASCII_TEXT = /^[\t\n\r\x20-\x7E]*$/;

/**
 * Text from outside on one line, in which no two characters look the same: what cannot be seen is written out, and so
 * are letters that pass for others.
 */
export function visible(text: string): string {
  return visibleText(text).replaceAll("\n", "\\n").replaceAll("\t", "\\t");
}

/** The same with its lines and tabs. */
export function visibleText(text: string): string {
  if (ASCII_TEXT.test(text) && !text.includes("\r")) return text;
  const isDisguise = disguisesIn(text);
  return text
    .replace(UNSAFE, (character) => (character === "\n" || character === "\t" ? character : writtenOut(character)))
    .replace(SHAPELESS, writtenOut)
    .replace(LIKE_ASCII, writtenOut)
    .replace(WORD, (word, at: number, whole: string) =>
      isDisguise(word, at, whole) ? word.replace(NOT_ASCII, writtenOut) : word,
    );
}

/** JSON that means exactly the same, with every such character as an escape that JSON has. */
export function visibleJson(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, undefined, indent) ?? "null";
  if (ASCII_TEXT.test(text)) return text;
  const isDisguise = disguisesIn(text);
  return text
    .replace(UNSAFE, (character) => (character === "\n" ? character : jsonEscape(character)))
    .replace(SHAPELESS, jsonEscape)
    .replace(LIKE_ASCII, jsonEscape)
    .replace(JSON_WORD, (word, at: number, whole: string) =>
      isDisguise(word, at, whole) ? word.replace(NOT_ASCII, jsonEscape) : word,
    );
}

/** At most so many characters are named; a reader needs no more to be warned. */
const NAMED = 8;

/** What a reader of a text must be told of its characters: those that cannot be seen, and those that pass for others. */
export function characterWarnings(text: string): readonly string[] {
  if (ASCII_TEXT.test(text)) return [];
  const hidden = new Set<string>();
  for (const pattern of [UNSAFE, SHAPELESS])
    for (const [character] of text.matchAll(pattern))
      if (!"\n\t\r".includes(character)) hidden.add(numberOf(character));
  const alike = new Set<string>();
  for (const [character] of text.matchAll(LIKE_ASCII)) alike.add(named("", character, character.normalize("NFKC")));
  const isDisguise = disguisesIn(text);
  for (const { 0: word, index } of text.matchAll(WORD)) {
    if (!isDisguise(word, index, text)) continue;
    for (const letter of word) {
      const latin = latinFor(letter);
      if (latin !== undefined) alike.add(named(scriptOf(letter), letter, latin));
    }
  }
  return [
    ...(hidden.size === 0
      ? []
      : [`contains characters that cannot be seen or that act on the text: ${listed(hidden)}`]),
    ...(alike.size === 0 ? [] : [`contains ${listed(alike)}`]),
    ...(FROM_RIGHT.test(text)
      ? ["contains text from right to left: what stands beside it may be shown in another order"]
      : []),
  ];
}

function named(script: string, character: string, like: string): string {
  const looks = /^[!-~]$/.test(like) ? ` that looks like ${like}` : "";
  const shape = /^\p{Zs}$/u.test(character) ? "a space" : character;
  return `${script}${shape} (${numberOf(character)})${looks}`;
}

function listed(found: ReadonlySet<string>): string {
  const more = found.size > NAMED ? ` and ${found.size - NAMED} more` : "";
  return `${[...found].slice(0, NAMED).join(", ")}${more}`;
}

function scriptOf(letter: string): string {
  const point = letter.codePointAt(0) ?? 0;
  if (point < 0x400) return "Greek ";
  if (point < 0x530) return "Cyrillic ";
  return point < 0x590 ? "Armenian " : "Cherokee ";
}

function numberOf(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

function writtenOut(character: string): string {
  return `\\u{${character.codePointAt(0)?.toString(16)}}`;
}

/** JSON knows code units alone. */
function jsonEscape(character: string): string {
  let escaped = "";
  for (let at = 0; at < character.length; at++)
    escaped += `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`;
  return escaped;
}
