import { undisguised } from "../lookalikes.ts";

export interface Word {
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
const ASCII = /^[\0-\x7F]*$/;

/** Text as a model reads it: no hidden characters, no letters of other scripts in Latin words, no accents, no capitals. */
export function folded(text: string): string {
  const plain = ASCII.test(text)
    ? text
    : undisguised(text.replace(INVISIBLE, "").normalize("NFKC")).normalize("NFKD").replace(ACCENTS, "");
  return plain.toLowerCase().replaceAll("n't", " not").replaceAll("n\u2019t", " not");
}

const PIECE = /[\p{L}\p{N}_]+|[.!?:;\u3002](?=\s|$)|\n\s*\n/gu;

/** The words of a folded text. Letters that stand alone in a row are one word: `i g n o r e`. */
export function wordsOf(text: string): readonly Word[] {
  const words: Word[] = [];
  let sentence = 0;
  for (const { 0: piece, index: from } of text.matchAll(PIECE)) {
    if (!isWord(piece)) {
      sentence++;
      continue;
    }
    const last = words.at(-1);
    const isSpelled = piece.length === 1 && last !== undefined && from - last.to === 1 && isRow(text, last);
    if (isSpelled) words[words.length - 1] = { ...last, text: last.text + piece, to: from + 1 };
    else words.push({ text: piece, from, to: from + piece.length, sentence });
  }
  return words;
}

function isWord(piece: string): boolean {
  return /^[\p{L}\p{N}_]/u.test(piece);
}

/** Whether a word is made of letters that stood alone: every second character of it is a space. */
function isRow(text: string, { text: word, from, to }: Word): boolean {
  return to - from === 2 * word.length - 1 && (word.length === 1 || text[from + 1] === " ");
}

/** The parts of an identifier, as words: `readFile_now` is read, file, now. */
export function partsOf(name: string): string {
  return name.replace(/([a-z0-9])(?=[A-Z])/g, "$1 ").replace(/[_\-./]+/g, " ");
}
