import { UNSAFE } from "../../core/plain-text.ts";
import { isDisguised } from "./lookalikes.ts";

/**
 * What has no shape of its own beside what is never safe to show: joiners, fillers, soft hyphens, selectors of variants,
 * halves of pairs. Emoji and some scripts need a few of them; whoever compares two texts must see them nevertheless.
 */
const SHAPELESS = /[\p{Default_Ignorable_Code_Point}\p{Surrogate}\u2800\uFFF9-\uFFFB]/gu;

const WORD = /[\p{L}\p{M}]+/gu;
const NOT_ASCII = /\P{ASCII}/gu;

/**
 * Text from outside on one line, in which no two characters look the same: what cannot be seen is written out, and so
 * are letters that pass for others.
 */
export function visible(text: string): string {
  return text
    .replace(UNSAFE, (character) => (character === "\n" ? "\\n" : character === "\t" ? "\\t" : writtenOut(character)))
    .replace(SHAPELESS, writtenOut)
    .replace(WORD, (word) => (isDisguised(word) ? word.replace(NOT_ASCII, writtenOut) : word));
}

function writtenOut(character: string): string {
  return `\\u{${character.codePointAt(0)?.toString(16)}}`;
}
