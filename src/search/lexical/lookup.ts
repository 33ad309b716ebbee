import type { Postings } from "./postings.ts";
import type { Scope } from "./scope.ts";
import type { Near, Spellings } from "./spellings.ts";
import { COMMON } from "./weights.ts";
import { stemOf } from "./words.ts";

const NEAR_LIMIT = 3;
const LONGER_LIMIT = 8;
const LONGER_FROM = 4;
const CUT_OFF = 4;
const HALF_FROM = 3;

/** The vocabulary as far as a scope may know it: a term that only hidden actions hold is as good as not there. */
export class Lookup {
  readonly #postings: Postings;
  readonly #scope: Scope;
  readonly #spellings: () => Spellings;

  constructor(postings: Postings, scope: Scope, spellings: () => Spellings) {
    this.#postings = postings;
    this.#scope = scope;
    this.#spellings = spellings;
  }

  /** The number of a term that somebody in scope holds. */
  term(text: string): number | undefined {
    const term = this.#postings.vocabulary.numbers.get(text);
    return term !== undefined && term < this.#postings.terms && this.holders(term) > 0 ? term : undefined;
  }

  /** How much it says that somebody holds the term, or the most common of several: the fewer do, the more. */
  rarity(terms: readonly number[]): number {
    const holders = terms.reduce((most, term) => Math.max(most, this.holders(term)), 0);
    return Math.log(1 + (this.#scope.count - holders + 0.5) / (holders + 0.5));
  }

  /** Whether nearly everybody in scope holds one of the terms. */
  isCommon(terms: readonly number[]): boolean {
    return terms.some((term) => this.holders(term) > COMMON * this.#scope.count);
  }

  /** `timezone` as time, zone. */
  halves(word: string): readonly number[] {
    for (let at = HALF_FROM; at <= word.length - HALF_FROM; at++) {
      const first = this.term(stemOf(word.slice(0, at)));
      const second = first === undefined ? undefined : this.term(stemOf(word.slice(at)));
      if (first !== undefined && second !== undefined) return [first, second];
    }
    return [];
  }

  /** Terms that begin with this one, and the longest that this one begins with. */
  forms(text: string): readonly number[] {
    return [...this.#longer(text), ...this.#shorter(text)];
  }

  /** The nearest terms within a slip of the pen or two of any of the texts. */
  near(texts: Iterable<string>): readonly Near[] {
    const found = new Map<number, Near>();
    for (const text of texts) {
      for (const each of this.#spellings().near(text)) {
        if (each.edits < (found.get(each.term)?.edits ?? Number.POSITIVE_INFINITY)) found.set(each.term, each);
      }
    }
    const nearest = this.#chosen([...found.values()], NEAR_LIMIT);
    return nearest.filter(({ edits }) => edits === nearest[0]?.edits);
  }

  #longer(text: string): readonly number[] {
    // A single character of Japanese or Chinese is a word, and stands in the index with the one after it.
    if (text.length < LONGER_FROM && /^[\p{sc=Latn}\p{sc=Grek}\p{sc=Cyrl}\p{N}]/u.test(text)) return [];
    const found = this.#spellings().beginningWith(text);
    const lengths = found.map((term) => ({ term, edits: this.#text(term).length }));
    return this.#chosen(lengths, LONGER_LIMIT).map(({ term }) => term);
  }

  #shorter(text: string): readonly number[] {
    for (let length = text.length - 1; length >= Math.max(LONGER_FROM, text.length - CUT_OFF); length--) {
      const found = this.term(text.slice(0, length));
      if (found !== undefined) return [found];
    }
    return [];
  }

  /** The fewest edits first, then by spelling: by nothing that a hidden action has a part in. */
  #chosen(found: readonly Near[], limit: number): readonly Near[] {
    return found
      .filter(({ term }) => this.holders(term) > 0)
      .sort((a, b) => a.edits - b.edits || (this.#text(a.term) < this.#text(b.term) ? -1 : 1))
      .slice(0, limit);
  }

  #text(term: number): string {
    return this.#postings.vocabulary.terms[term] ?? "";
  }

  /** How many in scope hold the term. */
  holders(term: number): number {
    const { starts, holders, frequencies } = this.#postings;
    const { visible, counted } = this.#scope;
    if (visible === undefined) return frequencies[term] ?? 0;
    let count = counted.get(term);
    if (count === undefined) {
      count = 0;
      const end = starts[term + 1] ?? 0;
      let last = -1;
      for (let at = starts[term] ?? 0; at < end; at++) {
        const holder = holders[at] ?? 0;
        if (holder !== last) count += visible[holder] ?? 0;
        last = holder;
      }
      counted.set(term, count);
    }
    return count;
  }
}
