import type { Searchable } from "../hits.ts";
import { LENGTH_LIMIT, lexicalFields, type Postings } from "./postings.ts";
import type { NearTerm, TermSpellings } from "./spellings.ts";
import { stemWord } from "./tokenize.ts";
import { COMMON, fieldWeights } from "./weights.ts";

/** The statistics of the visible actions. Hidden actions do not count, so that they do not influence any score. */
export interface SearchScope {
  /** 1 for a visible action. Absent: all are visible. */
  readonly visible?: Uint8Array;
  readonly count: number;
  /** The weight of one word in a field, by field × (LENGTH_LIMIT + 1) + length of the field. */
  readonly norms: Float64Array;
  /** Cached counts of visible holders, by term. */
  readonly counted: Map<number, number>;
}

export function createSearchScope(postings: Postings, view: Searchable): SearchScope {
  const visible = createMask(postings, view);
  const count = visible === undefined ? postings.actions.length : visible.reduce((sum, each) => sum + each, 0);
  const norms = computeNorms(postings, visible);
  return { ...(visible === undefined ? {} : { visible }), count, norms, counted: new Map() };
}

function createMask({ actions }: Postings, view: Searchable): Uint8Array | undefined {
  const seen = view.actions();
  if (view.snapshot.actions === actions && seen.length === actions.length) return undefined;
  const all = new Set(seen);
  const mask = Uint8Array.from(actions, (action) => (all.has(action) ? 1 : 0));
  return mask.includes(0) ? mask : undefined;
}

/** The words of a text count less the longer it is than the average. */
function computeNorms({ actions, lengths }: Postings, visible: Uint8Array | undefined): Float64Array {
  const norms = new Float64Array(lexicalFields.length * (LENGTH_LIMIT + 1));
  for (const [field, name] of lexicalFields.entries()) {
    const { weight, length: held } = fieldWeights[name];
    let words = 0;
    let having = 0;
    for (let action = 0; action < actions.length; action++) {
      if (visible !== undefined && visible[action] === 0) continue;
      const length = lengths[action * lexicalFields.length + field] ?? 0;
      words += length;
      if (length > 0) having++;
    }
    // The average of the actions that have this field: few have labels.
    const average = words / Math.max(1, having);
    for (let length = 1; length <= LENGTH_LIMIT && having > 0; length++) {
      norms[field * (LENGTH_LIMIT + 1) + length] = weight / (1 - held + (held * length) / average);
    }
  }
  return norms;
}

const NEAR_LIMIT = 3;
const LONGER_LIMIT = 8;
const LONGER_FROM = 4;
const CUT_OFF = 4;
const HALF_FROM = 3;

/** Looks up terms of visible actions. A term that only hidden actions hold is not found. */
export class TermLookup {
  readonly #postings: Postings;
  readonly #scope: SearchScope;
  readonly #spellings: () => TermSpellings;

  constructor(postings: Postings, scope: SearchScope, spellings: () => TermSpellings) {
    this.#postings = postings;
    this.#scope = scope;
    this.#spellings = spellings;
  }

  term(text: string): number | undefined {
    const term = this.#postings.vocabulary.numbers.get(text);
    return term !== undefined && term < this.#postings.terms && this.holders(term) > 0 ? term : undefined;
  }

  /** The weight of a term, or of the most common of several. The fewer actions hold it, the higher. */
  rarity(terms: readonly number[]): number {
    const holders = terms.reduce((most, term) => Math.max(most, this.holders(term)), 0);
    return Math.log(1 + (this.#scope.count - holders + 0.5) / (holders + 0.5));
  }

  isCommon(terms: readonly number[]): boolean {
    return terms.some((term) => this.holders(term) > COMMON * this.#scope.count);
  }

  /** Splits `timezone` into time and zone. */
  halves(word: string): readonly number[] {
    for (let at = HALF_FROM; at <= word.length - HALF_FROM; at++) {
      const first = this.term(stemWord(word.slice(0, at)));
      const second = first === undefined ? undefined : this.term(stemWord(word.slice(at)));
      if (first !== undefined && second !== undefined) return [first, second];
    }
    return [];
  }

  /** Terms that begin with this text, and the longest term that this text begins with. */
  forms(text: string): readonly number[] {
    return [...this.#longer(text), ...this.#shorter(text)];
  }

  near(texts: Iterable<string>): readonly NearTerm[] {
    const found = new Map<number, NearTerm>();
    for (const text of texts) {
      for (const each of this.#spellings().near(text)) {
        if (each.edits < (found.get(each.term)?.edits ?? Number.POSITIVE_INFINITY)) found.set(each.term, each);
      }
    }
    const nearest = this.#pickVisible([...found.values()], NEAR_LIMIT);
    return nearest.filter(({ edits }) => edits === nearest[0]?.edits);
  }

  #longer(text: string): readonly number[] {
    // A single Japanese or Chinese character is a word; the index has it with the next character.
    if (text.length < LONGER_FROM && /^[\p{sc=Latn}\p{sc=Grek}\p{sc=Cyrl}\p{N}]/u.test(text)) return [];
    const found = this.#spellings().beginningWith(text);
    const lengths = found.map((term) => ({ term, edits: this.#text(term).length }));
    return this.#pickVisible(lengths, LONGER_LIMIT).map(({ term }) => term);
  }

  #shorter(text: string): readonly number[] {
    for (let length = text.length - 1; length >= Math.max(LONGER_FROM, text.length - CUT_OFF); length--) {
      const found = this.term(text.slice(0, length));
      if (found !== undefined) return [found];
    }
    return [];
  }

  /** The fewest edits first, then by spelling, which does not depend on hidden actions. */
  #pickVisible(found: readonly NearTerm[], limit: number): readonly NearTerm[] {
    return found
      .filter(({ term }) => this.holders(term) > 0)
      .sort((a, b) => a.edits - b.edits || (this.#text(a.term) < this.#text(b.term) ? -1 : 1))
      .slice(0, limit);
  }

  #text(term: number): string {
    return this.#postings.vocabulary.terms[term] ?? "";
  }

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
