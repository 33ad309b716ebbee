import { replaceLookalikes } from "../../../core/display-text.ts";

export interface ScannedWord {
  readonly text: string;
  readonly from: number;
  readonly to: number;
  readonly sentence: number;
}

const INVISIBLE = /\p{Default_Ignorable_Code_Point}/gu;
const ACCENTS = /\p{M}/gu;
const ENDING = /^[.!?:;\u3002\n]/;
const ASCII = /^[\0-\x7F]*$/;

/** Normalizes text to how a model reads it: no hidden characters, lookalike letters, accents or capitals. */
export function foldForScan(text: string): string {
  const plain = ASCII.test(text)
    ? text
    : replaceLookalikes(text.replace(INVISIBLE, "").normalize("NFKC")).normalize("NFKD").replace(ACCENTS, "");
  return plain.toLowerCase().replaceAll("n't", " not").replaceAll("n\u2019t", " not");
}

const MAX_ROW_LENGTH = 40;
const PIECE = /[\p{L}\p{N}_]+|[.!?:;\u3002](?=\s|$)|\n\s*\n/gu;
const ASCII_PIECE = /[a-z0-9_]+|[.!?:;](?=\s|$)|\n\s*\n/g;

/** The words of a folded text. A row of single letters, as in `i g n o r e`, is one word. */
export function splitFoldedWords(text: string): readonly ScannedWord[] {
  const words: { text: string; from: number; to: number; sentence: number }[] = [];
  let sentence = 0;
  // Whether the last word is a single letter or a row of them.
  let isRow = false;
  for (const { 0: piece, index: from } of text.matchAll(ASCII.test(text) ? ASCII_PIECE : PIECE)) {
    if (ENDING.test(piece)) {
      sentence++;
      continue;
    }
    const last = words.at(-1);
    const isLetter = piece.length === 1;
    if (isLetter && isRow && last !== undefined && from - last.to === 1 && last.text.length < MAX_ROW_LENGTH) {
      last.text += piece;
      last.to = from + 1;
    } else words.push({ text: piece, from, to: from + piece.length, sentence });
    isRow = isLetter;
  }
  return words;
}

/** Replaces digits that stand for letters, as in `1gn0re`. Other words are returned unchanged. */
export function replaceLeetDigits(word: string): string {
  if (word.length < 4 || !/[013457][a-z]/.test(word) || !/^[a-z013457]+$/.test(word)) return word;
  return word.replace(/[013457]/g, (digit) => "oieast".charAt("013457".indexOf(digit)));
}

/** Splits an identifier into words: `readFile_now` becomes `read File now`. */
export function splitIdentifier(name: string): string {
  return name.replace(/([a-z0-9])(?=[A-Z])/g, "$1 ").replace(/[_\-./]+/g, " ");
}
