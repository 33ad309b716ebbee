/** Letters of other scripts, each group with the Latin letters that they are taken for. Written by number: one cannot see which is which. */
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
const LETTER_RUN = /[\p{L}\p{M}]+/gu;

/** Whether letters of another script stand among Latin ones and pass for them. */
export function isDisguised(word: string): boolean {
  return OTHER_SCRIPT.test(word) && /[a-z]/i.test(word) && Array.from(word).some((letter) => LATIN.has(letter));
}

/**
 * Tells the words of a text that a reader would take for Latin ones: those that mix scripts, and those made of
 * look-alikes alone. Such words are ordinary ones only within a sentence of their script; one strange letter somewhere
 * else in the text, which a caller can put there, says nothing about them. Undefined: there is none.
 */
function createDisguiseDetector(text: string): ((word: string, at: number, text: string) => boolean) | undefined {
  if (!OTHER_SCRIPT.test(text)) return undefined;
  return (word, at, whole) => isDisguised(word) || (ALIKE.test(word) && !isInSentence(word, at, whole));
}

const ALIKE = new RegExp(`^[${[...LATIN.keys()].join("")}]+$`);
const LONGEST_NEIGHBOUR = 40;

/** Whether a word stands beside one that is clearly of another script, and beside no Latin one. */
function isInSentence(word: string, at: number, text: string): boolean {
  const end = at + word.length;
  const before = /([\p{L}\p{M}]+),? $/u.exec(text.slice(Math.max(0, at - LONGEST_NEIGHBOUR), at))?.[1] ?? "";
  const after = /^,? ([\p{L}\p{M}]+)/u.exec(text.slice(end, end + LONGEST_NEIGHBOUR))?.[1] ?? "";
  return !/[a-z]/i.test(before + after) && (isForeign(before) || isForeign(after));
}

function isForeign(word: string): boolean {
  return Array.from(word).filter((letter) => OTHER_SCRIPT.test(letter) && !LATIN.has(letter)).length >= 2;
}

/** The Latin letter that a letter of another script is taken for. */
function getLatinLookalike(letter: string): string | undefined {
  return LATIN.get(letter);
}

/** The text as it is read by whoever does not look closely: such letters replaced by the Latin ones. */
export function replaceLookalikes(text: string): string {
  if (!OTHER_SCRIPT.test(text)) return text;
  return text.replace(LETTER_RUN, (word) =>
    isDisguised(word) ? Array.from(word, (letter) => LATIN.get(letter) ?? letter).join("") : word,
  );
}

/**
 * What could rewrite the line it is shown on, or hide in it: control characters, marks that turn the direction of
 * writing, line separators, and characters without a shape. The joiners of emoji and of some scripts may stay.
 */
export const UNSAFE_CHARACTERS =
  /[\p{Cc}\u061C\u200B\u200E\u200F\u2028-\u202E\u2060-\u2069\uFEFF\u{E0000}-\u{E007F}]/gu;

/** Text from outside on one line, with nothing left in it that a terminal would act on or that nobody would see. */
export function toOneLine(text: string): string {
  return escapeUnsafe(text.replace(/\s+/gu, " ").trim());
}

/** Text from outside with its lines and tabs, and with nothing else left in it that a terminal would act on. */
export function escapeUnsafe(text: string): string {
  return text.replace(UNSAFE_CHARACTERS, (character) =>
    character === "\n" || character === "\t" ? character : `\\u{${character.codePointAt(0)?.toString(16)}}`,
  );
}

/** `1 event`, `2 events`. */
export function formatCount(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** A word as it is typed into a POSIX shell. */
export function quoteShellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

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
  `(?:(?![\\n\\t])[${[UNSAFE_CHARACTERS, SHAPELESS, LIKE_ASCII].map(({ source }) => source.slice(1, -1)).join("")}])+`,
  "gu",
);
const HIDDEN = new RegExp(`[${[UNSAFE_CHARACTERS, SHAPELESS].map(({ source }) => source.slice(1, -1)).join("")}]`, "u");

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
export function toVisibleLine(text: string): string {
  return toVisibleText(text).replaceAll("\n", "\\n").replaceAll("\t", "\\t");
}

/** The same with its lines and tabs. */
export function toVisibleText(text: string): string {
  if (ASCII_TEXT.test(text) && !text.includes("\r")) return text;
  return escapeDeceptive(text, WORD, escapeCodePoints);
}

/** JSON that means exactly the same, with every such character as an escape that JSON has. */
export function toVisibleJson(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, undefined, indent) ?? "null";
  return ASCII_TEXT.test(text) ? text : escapeDeceptive(text, JSON_WORD, escapeCodeUnits);
}

function escapeDeceptive(text: string, words: RegExp, written: (run: string) => string): string {
  const seen = text.replace(DECEPTIVE, written);
  const isDisguise = createDisguiseDetector(text);
  if (isDisguise === undefined) return seen;
  // Words cost more than letters: in a text with very many of them every such letter is written out.
  if (countMatches(MOST_WORDS, seen, OTHER_LETTERS) === MOST_WORDS) return seen.replace(OTHER_LETTERS, written);
  return seen.replace(words, (word, at: number, whole: string) =>
    isDisguise(word, at, whole) ? word.replace(NOT_ASCII, written) : word,
  );
}

const MOST_WORDS = 20_000;

function countMatches(most: number, text: string, pattern: RegExp): number {
  let count = 0;
  for (const _ of text.matchAll(pattern)) if (++count === most) break;
  return count;
}

/** At most so many characters are named; a reader needs no more to be warned. */
const WARNED_CHARACTERS_LIMIT = 8;

/** What a reader of a text must be told of its characters: those that cannot be seen, and those that pass for others. */
export function listCharacterWarnings(text: string): readonly string[] {
  if (ASCII_TEXT.test(text)) return [];
  const characters = [...new Set(text)];
  const hidden = characters.filter((each) => HIDDEN.test(each) && !"\n\t\r".includes(each)).map(formatCodePoint);
  const alike = new Set(
    characters
      .filter((each) => LIKE_ASCII.test(each))
      .map((each) => describeCharacter("", each, each.normalize("NFKC"))),
  );
  for (const letter of findDisguisedLetters(text, characters)) {
    const latin = getLatinLookalike(letter);
    if (latin !== undefined) alike.add(describeCharacter(detectScript(letter), letter, latin));
  }
  return [
    ...(hidden.length === 0
      ? []
      : [`contains characters that cannot be seen or that act on the text: ${joinLimited(hidden)}`]),
    ...(alike.size === 0 ? [] : [`contains ${joinLimited([...alike])}`]),
    ...(characters.some((each) => FROM_RIGHT.test(each))
      ? ["contains text from right to left: what stands beside it may be shown in another order"]
      : []),
  ];
}

/** The letters of words that pass for Latin ones. Of very many words, all that could. */
function findDisguisedLetters(text: string, characters: readonly string[]): Iterable<string> {
  const isDisguise = createDisguiseDetector(text);
  if (isDisguise === undefined) return [];
  if (countMatches(MOST_WORDS, text, OTHER_LETTERS) === MOST_WORDS) return characters;
  const words = [...text.matchAll(WORD)].filter(({ 0: word, index }) => isDisguise(word, index, text));
  return new Set(words.map(([word]) => word).join(""));
}

function describeCharacter(script: string, character: string, like: string): string {
  const looks = /^[!-~]$/.test(like) ? ` that looks like ${like}` : "";
  const shape = /^\p{Zs}$/u.test(character) ? "a space" : character;
  return `${script}${shape} (${formatCodePoint(character)})${looks}`;
}

function joinLimited(found: readonly string[]): string {
  const more = found.length > WARNED_CHARACTERS_LIMIT ? ` and ${found.length - WARNED_CHARACTERS_LIMIT} more` : "";
  return `${found.slice(0, WARNED_CHARACTERS_LIMIT).join(", ")}${more}`;
}

function detectScript(letter: string): string {
  const point = letter.codePointAt(0) ?? 0;
  if (point < 0x400) return "Greek ";
  if (point < 0x530) return "Cyrillic ";
  return point < 0x590 ? "Armenian " : "Cherokee ";
}

function formatCodePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

function escapeCodePoints(run: string): string {
  let text = "";
  for (const character of run) text += `\\u{${character.codePointAt(0)?.toString(16)}}`;
  return text;
}

/** JSON knows code units alone. */
function escapeCodeUnits(run: string): string {
  let escaped = "";
  for (let at = 0; at < run.length; at++) escaped += `\\u${run.charCodeAt(at).toString(16).padStart(4, "0")}`;
  return escaped;
}
