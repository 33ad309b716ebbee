import type { Postings } from "./postings.ts";
import type { Scope } from "./scope.ts";
import type { Spellings } from "./spellings.ts";
import { softWords, stopWords } from "./stop-words.ts";
import { relatives } from "./synonyms.ts";
import { weights } from "./weights.ts";
import { stemOf, type Word, wordsIn } from "./words.ts";

/** One thing that was asked for, and all it may be found by. */
export interface Wanted {
  /** The word it comes from, as it was written. */
  readonly written: string;
  /** How much it counts among what was asked for: how rare it is, and how much such words usually say. */
  readonly weight: number;
  /** Terms that somebody in scope holds, the truest first. */
  readonly found: readonly { readonly term: number; readonly likeness: number; readonly weight: number }[];
}

const QUERY_LIMIT = 10_000;
const WANTED_LIMIT = 64;
const NEAR_LIMIT = 3;
const PREFIX_LIMIT = 8;

/** What a query asks for, in the order it was written. Words that only carry the sentence are left out. */
export function wantedBy(text: string, postings: Postings, scope: Scope, spellings: () => Spellings): readonly Wanted[] {
  const all = wordsIn(text.slice(0, QUERY_LIMIT));
  const telling = all.filter(({ plain }) => !stopWords.has(plain));
  const words = telling.length > 0 ? telling : all;
  const wanted = new Map<string, Wanted>();
  const lookup = new Lookup(postings, scope, spellings);
  for (const [index, word] of words.entries()) {
    for (const [term, share] of termsOf(word, lookup)) {
      if (wanted.size >= WANTED_LIMIT) return [...wanted.values()];
      if (wanted.has(term)) continue;
      const q = QUOTED.test(text) && inQuotes(text, word.written) ? weights.quoted : 1;
      const l = index === 0 ? weights.lead : 1;
      wanted.set(term, asked(term, share * q * l, word, [words[index - 1], words[index + 1]], lookup));
    }
  }
  if (weights.pair > 0) {
    const seq = words.flatMap((w) => w.terms.map((t) => [t, w] as const));
    for (let i = 1; i < seq.length; i++) {
      const key = seq[i - 1]![0] + " " + seq[i]![0];
      const own = lookup.visible(key);
      if (own === undefined || wanted.has(key)) continue;
      wanted.set(key, { written: seq[i]![1].written, weight: weights.pair * lookup.rarity([own]), found: [{ term: own, likeness: 1, weight: weights.pair * lookup.rarity([own]) }] });
    }
  }
  if (weights.surface > 0) {
    for (const w of words) { const key = "=" + w.plain; const own = lookup.visible(key); if (own === undefined || wanted.has(key)) continue;
      wanted.set(key, { written: w.written, weight: weights.surface * lookup.rarity([own]), found: [{ term: own, likeness: 1, weight: weights.pair * lookup.rarity([own]) }] }); }
  }
  if (weights.question > 0 && /^(what|which|show|how many|how much|tell|give|do i|are |is |list|display|view|see|check|find)\b/i.test(text.trim())) {
    const found = ["get", "list", "show", "retriev", "read", "fetch"].map((t) => lookup.visible(t)).filter((x) => x !== undefined);
    if (found.length) wanted.set("?", { written: "", weight: weights.question * lookup.rarity(found), found: found.map((term) => ({ term, likeness: 1, weight: weights.question * lookup.rarity(found) })) });
  }
  return [...wanted.values()];
}

/** `GitHub` is looked for as one word where somebody writes it so, and as its parts anyway. */
function termsOf({ terms, whole }: Word, lookup: Lookup): readonly (readonly [string, number])[] {
  if (whole === undefined || lookup.frequency(whole) === 0) return terms.map((term) => [term, 1]);
  return [[whole, 1], ...terms.map((term) => [term, weights.part] as const)];
}

function asked(
  term: string,
  share: number,
  word: Word,
  neighbours: readonly [Word | undefined, Word | undefined],
  lookup: Lookup,
): Wanted {
  const found = new Map<number, number>();
  const add = (number: number | undefined, likeness: number): void => {
    if (number !== undefined && (found.get(number) ?? 0) < likeness) found.set(number, likeness);
  };
  const own = lookup.visible(term);
  add(own, 1);
  const [before, after] = neighbours;
  if (before !== undefined) add(lookup.visible(stemOf(before.plain + word.plain)), weights.joined);
  if (after !== undefined) add(lookup.visible(stemOf(word.plain + after.plain)), weights.joined);
  for (const [other, how] of relatives.get(term) ?? []) add(lookup.visible(other), how === "same" ? weights.synonym : weights.kind);
  if (own === undefined && !/^\p{N}+$/u.test(term)) {
    for (const number of lookup.halves(word.plain)) add(number, weights.half);
    for (const number of lookup.longer(term)) add(number, weights.prefix);
    for (const number of lookup.shorter(term)) add(number, weights.prefix);
    if (found.size === 0) for (const { term: number, edits } of lookup.near(term)) add(number, weights.typo / edits);
  }
  const saying = /^\p{N}+$/u.test(term) ? weights.number : softWords.has(word.plain) ? weights.soft : 1;
  const terms = [...found].sort(([, a], [, b]) => b - a);
  const rarity = lookup.rarity(own === undefined ? terms.map(([number]) => number) : [own]);
  const weight = share * saying * rarity;
  const likely = terms.map(([number, likeness]) => ({ term: number, likeness, weight: likeness * share * saying * Math.min(rarity, lookup.rarity([number])) }));
  return { written: word.written, weight, found: likely };
}

/** The vocabulary as far as the scope may know it. */
class Lookup {
  readonly #postings: Postings;
  readonly #scope: Scope;
  readonly #spellings: () => Spellings;

  constructor(postings: Postings, scope: Scope, spellings: () => Spellings) {
    this.#postings = postings;
    this.#scope = scope;
    this.#spellings = spellings;
  }

  /** The term's number, when somebody in scope holds it. */
  visible(text: string): number | undefined {
    const term = this.#postings.vocabulary.numbers.get(text);
    return term !== undefined && term < this.#postings.terms && this.#holders(term, 1) > 0 ? term : undefined;
  }

  frequency(text: string): number {
    const term = this.visible(text);
    return term === undefined ? 0 : this.#holders(term);
  }

  rarity(terms: readonly number[]): number {
    const { count } = this.#scope;
    const holders = terms.reduce((most, term) => Math.max(most, this.#holders(term)), 0);
    return Math.log(1 + (count - holders + 0.5) / (holders + 0.5)) ** weights.idfPower + weights.idfFloor;
  }

  /** `timezone` as time, zone. */
  halves(word: string): readonly number[] {
    for (let at = 3; at <= word.length - 3; at++) {
      const first = this.visible(stemOf(word.slice(0, at)));
      const second = first === undefined ? undefined : this.visible(stemOf(word.slice(at)));
      if (first !== undefined && second !== undefined) return [first, second];
    }
    return [];
  }

  longer(term: string): readonly number[] {
    if (term.length < (/^[\0-\x7f]/.test(term) ? 4 : 1)) return [];
    const found = this.#spellings().beginningWith(term);
    return this.#chosen(found.map((each) => ({ term: each, edits: this.#text(each).length })), PREFIX_LIMIT).map((each) => each.term);
  }

  shorter(term: string): readonly number[] {
    for (let length = term.length - 1; length >= Math.max(4, term.length - 4); length--) {
      const found = this.visible(term.slice(0, length));
      if (found !== undefined) return [found];
    }
    return [];
  }

  near(term: string): readonly { readonly term: number; readonly edits: number }[] {
    const found = this.#chosen(this.#spellings().near(term), NEAR_LIMIT);
    return found.filter(({ edits }) => edits === found[0]?.edits);
  }

  /** Visible ones, the fewest edits first, then by spelling: never by anything that hidden actions have a part in. */
  #chosen<T extends { term: number; edits: number }>(found: readonly T[], limit: number): readonly T[] {
    return found
      .filter(({ term }) => this.#holders(term, 1) > 0)
      .sort((a, b) => a.edits - b.edits || (this.#text(a.term) < this.#text(b.term) ? -1 : 1))
      .slice(0, limit);
  }

  #text(term: number): string {
    return this.#postings.vocabulary.terms[term] ?? "";
  }

  /** How many in scope hold the term; stops counting at `enough`. */
  #holders(term: number, enough = Number.POSITIVE_INFINITY): number {
    const { starts, holders, frequencies } = this.#postings;
    const { visible } = this.#scope;
    if (visible === undefined) return frequencies[term] ?? 0;
    let count = 0;
    let last = -1;
    const end = starts[term + 1] ?? 0;
    for (let at = starts[term] ?? 0; at < end && count < enough; at++) {
      const holder = holders[at] ?? 0;
      if (holder !== last) count += visible[holder] ?? 0;
      last = holder;
    }
    return count;
  }
}

const QUOTED = /["'`<]/;
function inQuotes(text: string, word: string): boolean {
  const stripped = text.replace(/"[^"]*"|`[^`]*`|<[^>]*>|(?<![\p{L}\p{N}])'[^']*'/gu, " ");
  return !stripped.includes(word);
}
