import { replaceLookalikes } from "../../../core/display-text.ts";

export interface ScannedWord {
  /** Lower-case, without accents. */
  readonly text: string;
  /** Where it begins in the folded text, and where it ends. */
  readonly from: number;
  readonly to: number;
  /** The number of its sentence. */
  readonly sentence: number;
}

const INVISIBLE = /\p{Default_Ignorable_Code_Point}/gu;
const ACCENTS = /\p{M}/gu;
const ENDING = /^[.!?:;\u3002\n]/;
const ASCII = /^[\0-\x7F]*$/;

/** Text as a model reads it: no hidden characters, no letters of other scripts in Latin words, no accents, no capitals. */
export function foldForScan(text: string): string {
  const plain = ASCII.test(text)
    ? text
    : replaceLookalikes(text.replace(INVISIBLE, "").normalize("NFKC")).normalize("NFKD").replace(ACCENTS, "");
  return plain.toLowerCase().replaceAll("n't", " not").replaceAll("n\u2019t", " not");
}

/** No word is longer. */
const ROW = 40;
const PIECE = /[\p{L}\p{N}_]+|[.!?:;\u3002](?=\s|$)|\n\s*\n/gu;
const ASCII_PIECE = /[a-z0-9_]+|[.!?:;](?=\s|$)|\n\s*\n/g;

/** The words of a folded text. Letters that stand alone in a row are one word: `i g n o r e`. */
export function splitFoldedWords(text: string): readonly ScannedWord[] {
  const words: { text: string; from: number; to: number; sentence: number }[] = [];
  let sentence = 0;
  // Whether the last word is a letter that stands alone, or a row of such.
  let isRow = false;
  for (const { 0: piece, index: from } of text.matchAll(ASCII.test(text) ? ASCII_PIECE : PIECE)) {
    if (ENDING.test(piece)) {
      sentence++;
      continue;
    }
    const last = words.at(-1);
    const isLetter = piece.length === 1;
    if (isLetter && isRow && last !== undefined && from - last.to === 1 && last.text.length < ROW) {
      last.text += piece;
      last.to = from + 1;
    } else words.push({ text: piece, from, to: from + piece.length, sentence });
    isRow = isLetter;
  }
  return words;
}

const DIGITS = "013457";
const LETTERS = "oieast";

/** A word whose letters were replaced by digits that look like them: `1gn0re`. Others are as they are. */
export function replaceLeetDigits(word: string): string {
  if (word.length < 4 || !/[013457][a-z]/.test(word) || !/^[a-z013457]+$/.test(word)) return word;
  return word.replace(/[013457]/g, (digit) => LETTERS.charAt(DIGITS.indexOf(digit)));
}

/** The parts of an identifier, as words: `readFile_now` is read, file, now. */
export function splitIdentifier(name: string): string {
  return name.replace(/([a-z0-9])(?=[A-Z])/g, "$1 ").replace(/[_\-./]+/g, " ");
}
