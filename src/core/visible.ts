import { disguisesIn, latinFor, OTHER_LETTERS } from "./lookalikes.ts";
import { UNSAFE } from "./plain-text.ts";

/**
 * What has no shape of its own beside what is never safe to show: joiners, fillers, soft hyphens, selectors of variants,
 * halves of pairs. Emoji and some scripts need a few of them; whoever compares two texts must see them nevertheless.
 */
const SHAPELESS = /[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Surrogate}\u2800]/u;

/** Spaces, signs and styled letters that look like an ASCII character. */
const LIKE_ASCII =
  /[\u00A0\u0131\u0251\u0261\u01C0\u02B9\u02BC\u1680\u2000-\u200A\u202F\u205F\u3000\u01C3\u037E\u0589\u05C3\u2010\u2011\u2024\u2044\u2113\u212A\u2160-\u217F\u2212\u2215\u2216\u2223\u2236\u29F5\u29F8\u29F9\u2C80-\u2CF3\uA4D0-\uA4FF\uA789\uFE68\uFF01-\uFF5E\u{1D400}-\u{1D7FF}]/u;

/** All of these, but for the ends of lines and tabs, in runs. */
const DECEPTIVE = new RegExp(
  `(?:(?![\\n\\t])[${[UNSAFE, SHAPELESS, LIKE_ASCII].map(({ source }) => source.slice(1, -1)).join("")}])+`,
  "gu",
);
const HIDDEN = new RegExp(`[${[UNSAFE, SHAPELESS].map(({ source }) => source.slice(1, -1)).join("")}]`, "u");

/** What is written from right to left turns what stands between two such texts, such as the order of two arguments. */
const FROM_RIGHT = /[\u0590-\u08FF\uFB1D-\uFDFF\uFE70-\uFEFC\u{10800}-\u{10FFF}\u{1E800}-\u{1EFFF}]/u;

const WORD = /[\p{L}\p{M}]+/gu;
/** A word of a JSON text, or an escape, whose letter belongs to no word. */
const JSON_WORD = /\\(?:u[0-9a-f]{4}|.)|[\p{L}\p{M}]+/gu;
const NOT_ASCII = /\P{ASCII}+/gu;
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
  return withoutDeceit(text, WORD, writtenOut);
}

/** JSON that means exactly the same, with every such character as an escape that JSON has. */
export function visibleJson(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, undefined, indent) ?? "null";
  return ASCII_TEXT.test(text) ? text : withoutDeceit(text, JSON_WORD, jsonEscape);
}

function withoutDeceit(text: string, words: RegExp, written: (run: string) => string): string {
  const seen = text.replace(DECEPTIVE, written);
  const isDisguise = disguisesIn(text);
  if (isDisguise === undefined) return seen;
  // Words cost more than letters: in a text with very many of them every such letter is written out.
  if (countTo(MOST_WORDS, seen, OTHER_LETTERS) === MOST_WORDS) return seen.replace(OTHER_LETTERS, written);
  return seen.replace(words, (word, at: number, whole: string) =>
    isDisguise(word, at, whole) ? word.replace(NOT_ASCII, written) : word,
  );
}

const MOST_WORDS = 20_000;

function countTo(most: number, text: string, pattern: RegExp): number {
  let count = 0;
  for (const _ of text.matchAll(pattern)) if (++count === most) break;
  return count;
}

/** At most so many characters are named; a reader needs no more to be warned. */
const NAMED = 8;

/** What a reader of a text must be told of its characters: those that cannot be seen, and those that pass for others. */
export function characterWarnings(text: string): readonly string[] {
  if (ASCII_TEXT.test(text)) return [];
  const characters = [...new Set(text)];
  const hidden = characters.filter((each) => HIDDEN.test(each) && !"\n\t\r".includes(each)).map(numberOf);
  const alike = new Set(
    characters.filter((each) => LIKE_ASCII.test(each)).map((each) => named("", each, each.normalize("NFKC"))),
  );
  for (const letter of disguisedLetters(text, characters)) {
    const latin = latinFor(letter);
    if (latin !== undefined) alike.add(named(scriptOf(letter), letter, latin));
  }
  return [
    ...(hidden.length === 0
      ? []
      : [`contains characters that cannot be seen or that act on the text: ${listed(hidden)}`]),
    ...(alike.size === 0 ? [] : [`contains ${listed([...alike])}`]),
    ...(characters.some((each) => FROM_RIGHT.test(each))
      ? ["contains text from right to left: what stands beside it may be shown in another order"]
      : []),
  ];
}

/** The letters of words that pass for Latin ones. Of very many words, all that could. */
function disguisedLetters(text: string, characters: readonly string[]): Iterable<string> {
  const isDisguise = disguisesIn(text);
  if (isDisguise === undefined) return [];
  if (countTo(MOST_WORDS, text, OTHER_LETTERS) === MOST_WORDS) return characters;
  const words = [...text.matchAll(WORD)].filter(({ 0: word, index }) => isDisguise(word, index, text));
  return new Set(words.map(([word]) => word).join(""));
}

function named(script: string, character: string, like: string): string {
  const looks = /^[!-~]$/.test(like) ? ` that looks like ${like}` : "";
  const shape = /^\p{Zs}$/u.test(character) ? "a space" : character;
  return `${script}${shape} (${numberOf(character)})${looks}`;
}

function listed(found: readonly string[]): string {
  const more = found.length > NAMED ? ` and ${found.length - NAMED} more` : "";
  return `${found.slice(0, NAMED).join(", ")}${more}`;
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

function writtenOut(run: string): string {
  let text = "";
  for (const character of run) text += `\\u{${character.codePointAt(0)?.toString(16)}}`;
  return text;
}

/** JSON knows code units alone. */
function jsonEscape(run: string): string {
  let escaped = "";
  for (let at = 0; at < run.length; at++) escaped += `\\u${run.charCodeAt(at).toString(16).padStart(4, "0")}`;
  return escaped;
}
