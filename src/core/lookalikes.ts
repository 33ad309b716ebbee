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
export const OTHER_LETTERS = new RegExp(`${OTHER_SCRIPT.source}+`, "g");
const WORD = /[\p{L}\p{M}]+/gu;

/** Whether letters of another script stand among Latin ones and pass for them. */
export function isDisguised(word: string): boolean {
  return OTHER_SCRIPT.test(word) && /[a-z]/i.test(word) && Array.from(word).some((letter) => LATIN.has(letter));
}

/**
 * Tells the words of a text that a reader would take for Latin ones: those that mix scripts, and those made of
 * look-alikes alone. Such words are ordinary ones only within a sentence of their script; one strange letter somewhere
 * else in the text, which a caller can put there, says nothing about them. Undefined: there is none.
 */
export function disguisesIn(text: string): ((word: string, at: number, text: string) => boolean) | undefined {
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
export function latinFor(letter: string): string | undefined {
  return LATIN.get(letter);
}

/** The text as it is read by whoever does not look closely: such letters replaced by the Latin ones. */
export function undisguised(text: string): string {
  if (!OTHER_SCRIPT.test(text)) return text;
  return text.replace(WORD, (word) =>
    isDisguised(word) ? Array.from(word, (letter) => LATIN.get(letter) ?? letter).join("") : word,
  );
}
