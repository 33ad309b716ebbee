import { editDistance } from "../../core/nearest.ts";
import { type Steps, sortSteps } from "../steps.ts";
import type { Postings } from "./postings.ts";

export type NearTerm = { readonly term: number; readonly edits: number };

/** Finds similar terms in the whole vocabulary. The caller must filter them by visibility. */
export interface TermSpellings {
  near(term: string): readonly NearTerm[];
  beginningWith(prefix: string): readonly number[];
}

const TERMS_PER_STEP = 4_096;
const ONE_TYPO_FROM = 4;
const TWO_TYPOS_FROM = 8;

export function* spellingSteps({ vocabulary, terms }: Postings): Steps<TermSpellings> {
  const texts = vocabulary.terms;
  const all = Array.from({ length: terms }, (_, term) => term);
  const byText = Uint32Array.from(yield* sortSteps(all, (a, b) => ((texts[a] ?? "") < (texts[b] ?? "") ? -1 : 1)));
  const byLength = yield* groupByLength(texts, terms);

  return {
    near(term) {
      const typos = term.length < ONE_TYPO_FROM ? 0 : term.length < TWO_TYPOS_FROM ? 1 : 2;
      const letters = toLetterMask(term);
      const found: NearTerm[] = [];
      for (let length = term.length - typos; typos > 0 && length <= term.length + typos; length++) {
        const group = byLength.get(length);
        if (group === undefined) continue;
        for (let at = 0; at < group.terms.length; at++) {
          // Each typo changes at most two of the letters that occur. That rules out nearly all terms.
          if (countBits((group.letters[at] ?? 0) ^ letters) > 2 * typos) continue;
          const other = group.terms[at] ?? 0;
          const edits = editDistance(term, texts[other] ?? "", typos);
          if (edits <= typos) found.push({ term: other, edits });
        }
      }
      return found;
    },
    beginningWith(prefix) {
      let low = 0;
      let high = terms;
      while (low < high) {
        const middle = (low + high) >>> 1;
        if ((texts[byText[middle] ?? 0] ?? "") < prefix) low = middle + 1;
        else high = middle;
      }
      let end = low;
      while (end < terms && texts[byText[end] ?? 0]?.startsWith(prefix)) end++;
      return [...byText.subarray(low, end)];
    },
  };
}

interface Group {
  readonly terms: Uint32Array;
  /** The letters that occur in each term, one bit each. */
  readonly letters: Uint32Array;
}

function* groupByLength(texts: readonly string[], terms: number): Steps<ReadonlyMap<number, Group>> {
  const groups = new Map<number, number[]>();
  for (let term = 0; term < terms; term++) {
    if (term % TERMS_PER_STEP === 0) yield;
    const length = texts[term]?.length ?? 0;
    const group = groups.get(length);
    if (group === undefined) groups.set(length, [term]);
    else group.push(term);
  }
  const packed = new Map<number, Group>();
  for (const [length, group] of groups) {
    const letters = new Uint32Array(group.length);
    for (const [at, term] of group.entries()) {
      if (at % TERMS_PER_STEP === 0) yield;
      letters[at] = toLetterMask(texts[term] ?? "");
    }
    packed.set(length, { terms: Uint32Array.from(group), letters });
  }
  return packed;
}

function toLetterMask(text: string): number {
  let letters = 0;
  for (let at = 0; at < text.length; at++) letters |= 1 << (text.charCodeAt(at) & 31);
  return letters >>> 0;
}

function countBits(number: number): number {
  let left = number - ((number >>> 1) & 0x55555555);
  left = (left & 0x33333333) + ((left >>> 2) & 0x33333333);
  return (((left + (left >>> 4)) & 0x0f0f0f0f) * 0x01010101) >>> 24;
}
