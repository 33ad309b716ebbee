/** Letters of other scripts and the Latin letters they look like. Escaped, because a reader cannot tell them apart. */
const LOOKALIKES: readonly (readonly [letters: string, latin: string])[] = [
  ["\u0430\u0441\u0501\u0435\u04BB\u0456\u0458\u04CF\u043E\u0440\u051B\u0455\u0475\u051D", "acdehijlopqsvw"],
  ["\u0445\u0443\u043A\u043C\u0442\u043F\u0433\u0410\u0412\u0421\u0415\u041D\u0406\u0408", "xykmtnrABCEHIJ"],
  ["\u041A\u041C\u041E\u0420\u0405\u0422\u0425\u0423\u050C\u051A\u051C", "KMOPSTXYGQW"],
  ["\u03B1\u03BF\u03BD\u03C1\u03C4\u03B9\u03BA\u03C5\u0391\u0392\u0395\u0396\u0397\u0399", "aovptikuABEZHI"],
  ["\u039A\u039C\u039D\u039F\u03A1\u03A4\u03A5\u03A7", "KMNOPTYX"],
  ["\u0585\u0578\u057D\u0570\u0581\u0566", "onuhgq"],
  ["\u13AA\u13AC\u13B3\u13DA\u13DF\u13E2\u13A2\u13BB", "AEWSCPTH"],
];

const LATIN: ReadonlyMap<string, string> = new Map(
  LOOKALIKES.flatMap(([letters, latin]) => Array.from(letters, (letter, at) => [letter, latin.charAt(at)] as const)),
);

const OTHER_SCRIPT = /[\u0370-\u058F\u13A0-\u13FF]/;
const OTHER_LETTERS = new RegExp(`${OTHER_SCRIPT.source}+`, "g");
const WORD = /[\p{L}\p{M}]+/gu;

/** Whether a word mixes Latin letters with look-alikes of another script. */
export const isDisguised = (word: string): boolean =>
  OTHER_SCRIPT.test(word) && /[a-z]/i.test(word) && Array.from(word).some((letter) => LATIN.has(letter));

/** Also a word of look-alikes alone, unless beside words of its script: one planted letter must not excuse it. */
const looksLatin = (word: string, at: number, text: string): boolean =>
  isDisguised(word) || (ALIKE.test(word) && !isInSentence(word, at, text));
const ALIKE = new RegExp(`^[${[...LATIN.keys()].join("")}]+$`);
const LONGEST_NEIGHBOUR = 40;

function isInSentence(word: string, at: number, text: string): boolean {
  const end = at + word.length;
  const before = /([\p{L}\p{M}]+),? $/u.exec(text.slice(Math.max(0, at - LONGEST_NEIGHBOUR), at))?.[1] ?? "";
  const after = /^,? ([\p{L}\p{M}]+)/u.exec(text.slice(end, end + LONGEST_NEIGHBOUR))?.[1] ?? "";
  return !/[a-z]/i.test(before + after) && (isForeign(before) || isForeign(after));
}

const isForeign = (word: string): boolean =>
  Array.from(word).filter((letter) => OTHER_SCRIPT.test(letter) && !LATIN.has(letter)).length >= 2;

/** Replaces look-alikes in mixed words by their Latin letters, as a careless reader would read them. */
export function replaceLookalikes(text: string): string {
  if (!OTHER_SCRIPT.test(text)) return text;
  return text.replace(WORD, (word) =>
    isDisguised(word) ? Array.from(word, (letter) => LATIN.get(letter) ?? letter).join("") : word,
  );
}

/** Characters that can rewrite or hide text in a terminal, except the joiners that emoji and some scripts need. */
export const UNSAFE_CHARACTERS =
  /[\p{Cc}\u061C\u200B\u200E\u200F\u2028-\u202E\u2060-\u2069\uFEFF\u{E0000}-\u{E007F}]/gu;

/** Untrusted text on one line, with unsafe characters escaped. */
export const toOneLine = (text: string): string => escapeUnsafe(text.replace(/\s+/gu, " ").trim());

/** Untrusted text with unsafe characters escaped, except line breaks and tabs. */
export const escapeUnsafe = (text: string): string =>
  text.replace(UNSAFE_CHARACTERS, (character) =>
    character === "\n" || character === "\t" ? character : `\\u{${character.codePointAt(0)?.toString(16)}}`,
  );

export const formatCount = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;
export const quoteShellWord = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;

/** More invisible characters: joiners, fillers, soft hyphens, variant selectors, lone surrogates. */
const SHAPELESS = /[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Surrogate}\u2800]/u;

const LIKE_ASCII =
  /[\u00A0\u0131\u0251\u0261\u01C0\u02B9\u02BC\u1680\u2000-\u200A\u202F\u205F\u3000\u01C3\u037E\u0589\u05C3\u2010\u2011\u2024\u2044\u2113\u212A\u2160-\u217F\u2212\u2215\u2216\u2223\u2236\u29F5\u29F8\u29F9\u2C80-\u2CF3\uA4D0-\uA4FF\uA789\uFE68\uFF01-\uFF5E\u{1D400}-\u{1D7FF}]/u;

const DECEPTIVE = new RegExp(
  `(?:(?![\\n\\t])[${[UNSAFE_CHARACTERS, SHAPELESS, LIKE_ASCII].map(({ source }) => source.slice(1, -1)).join("")}])+`,
  "gu",
);
const HIDDEN = new RegExp(`[${[UNSAFE_CHARACTERS, SHAPELESS].map(({ source }) => source.slice(1, -1)).join("")}]`, "u");

/** Right-to-left text can swap what is shown between two such texts, such as two arguments. */
const FROM_RIGHT = /[\u0590-\u08FF\uFB1D-\uFDFF\uFE70-\uFEFC\u{10800}-\u{10FFF}\u{1E800}-\u{1EFFF}]/u;

/** A word of a JSON text, or an escape, whose letters belong to no word. */
const JSON_WORD = /\\(?:u[0-9a-f]{4}|.)|[\p{L}\p{M}]+/gu;
const NOT_ASCII = /\P{ASCII}+/gu;
const ASCII_TEXT = /^[\t\n\r\x20-\x7E]*$/;

/** Untrusted text on one line, escaped so that no character is invisible and no two look the same. */
export const toVisibleLine = (text: string) => toVisibleText(text).replaceAll("\n", "\\n").replaceAll("\t", "\\t");

/** Like `toVisibleLine`, but keeps line breaks and tabs. */
export const toVisibleText = (text: string): string =>
  ASCII_TEXT.test(text) && !text.includes("\r") ? text : escapeDeceptive(text, WORD, escapeCodePoints);

/** The same JSON value with every such character as a JSON escape. */
export function toVisibleJson(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, undefined, indent) ?? "null";
  return ASCII_TEXT.test(text) ? text : escapeDeceptive(text, JSON_WORD, escapeCodeUnits);
}

function escapeDeceptive(text: string, words: RegExp, encode: (run: string) => string): string {
  const visible = text.replace(DECEPTIVE, encode);
  if (!OTHER_SCRIPT.test(text)) return visible;
  if (hasManyWords(visible)) return visible.replace(OTHER_LETTERS, encode);
  return visible.replace(words, (word, at: number, whole: string) =>
    looksLatin(word, at, whole) ? word.replace(NOT_ASCII, encode) : word,
  );
}

/** Checking words costs more than checking letters, so a text with very many words is judged by letters alone. */
function hasManyWords(text: string): boolean {
  let count = 0;
  for (const _ of text.matchAll(OTHER_LETTERS)) if (++count === 20_000) return true;
  return false;
}

/** Warnings for a reader about invisible characters, look-alikes and right-to-left text. */
export function listCharacterWarnings(text: string): readonly string[] {
  if (ASCII_TEXT.test(text)) return [];
  const characters = [...new Set(text)];
  const hidden = characters.filter((each) => HIDDEN.test(each) && !"\n\t\r".includes(each)).map(formatCodePoint);
  const styled = characters.filter((each) => LIKE_ASCII.test(each));
  const alike = new Set(styled.map((each) => describeCharacter("", each, each.normalize("NFKC"))));
  for (const letter of findDisguisedLetters(text, characters)) {
    const latin = LATIN.get(letter);
    if (latin !== undefined) alike.add(describeCharacter(detectScript(letter), letter, latin));
  }
  const warnings: string[] = [];
  if (hidden.length > 0) warnings.push(`contains invisible or control characters: ${joinLimited(hidden)}`);
  if (alike.size > 0) warnings.push(`contains ${joinLimited([...alike])}`);
  if (characters.some((each) => FROM_RIGHT.test(each)))
    warnings.push("contains right-to-left text: what stands beside it may be shown in another order");
  return warnings;
}

function findDisguisedLetters(text: string, characters: readonly string[]): Iterable<string> {
  if (!OTHER_SCRIPT.test(text)) return [];
  if (hasManyWords(text)) return characters;
  const words = [...text.matchAll(WORD)].filter(({ 0: word, index }) => looksLatin(word, index, text));
  return new Set(words.map(([word]) => word).join(""));
}

function describeCharacter(script: string, character: string, like: string): string {
  const looks = /^[!-~]$/.test(like) ? ` that looks like ${like}` : "";
  const shape = /^\p{Zs}$/u.test(character) ? "a space" : character;
  return `${script}${shape} (${formatCodePoint(character)})${looks}`;
}

const joinLimited = (found: readonly string[]): string =>
  `${found.slice(0, 8).join(", ")}${found.length > 8 ? ` and ${found.length - 8} more` : ""}`;

function detectScript(letter: string): string {
  const point = letter.codePointAt(0) ?? 0;
  if (point < 0x400) return "Greek ";
  if (point < 0x530) return "Cyrillic ";
  return point < 0x590 ? "Armenian " : "Cherokee ";
}

const formatCodePoint = (character: string): string =>
  `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
const escapeCodePoints = (run: string): string =>
  Array.from(run, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`).join("");
const escapeCodeUnits = (run: string): string =>
  run.replace(/./gs, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
