import type { Action } from "../../core/action.ts";
import { eachText, fields } from "./fields.ts";
import { deedOf } from "./deeds.ts";
import { wordsIn } from "./words.ts";
import { SEPARATOR } from "../../core/names.ts";

/** Every term ever met, numbered. Only grows, so that what was analysed with it stays readable. */
interface Vocabulary {
  readonly numbers: Map<string, number>;
  readonly terms: string[];
}

/** Which actions hold which terms, where and how often. An action is its place in `actions`. */
export interface Postings {
  readonly actions: readonly Action[];
  readonly deeds: Uint8Array;
  readonly vocabulary: Vocabulary;
  /** How many terms these postings know; the vocabulary may have grown since. */
  readonly terms: number;
  /** Where the entries of a term begin; those of the next term follow. */
  readonly starts: Uint32Array;
  /** Per entry the action; several entries in a row when several of its fields hold the term. */
  readonly holders: Uint32Array;
  /** Per entry the field and how often: see `packed`. */
  readonly places: Uint8Array;
  /** How many actions hold the term. */
  readonly frequencies: Uint32Array;
  /** How many words each field of each action has, at most `LENGTH_LIMIT`. */
  readonly lengths: Uint16Array;
  /** The same by action instead of by term, as it was analysed: entries of term × 256 + place. */
  readonly analysed: Uint32Array;
  readonly analysedStarts: Uint32Array;
}

export const LENGTH_LIMIT = 1023;
const OFTEN = 31;
/** The vocabulary is shared with an earlier index until so much of it stands for what is gone. */
const DEAD_SHARE = 4;

export const fieldOf = (place: number): number => place & 7;
export const countOf = (place: number): number => place >> 3;
const packed = (field: number, count: number): number => field | (Math.min(count, OFTEN) << 3);

/** Takes over from `previous` what it knows of the same action objects. */
export function postingsOf(actions: readonly Action[], previous?: Postings): Postings {
  const known = previous !== undefined && previous.vocabulary.terms.length <= DEAD_SHARE * previous.terms ? previous : undefined;
  const vocabulary = known?.vocabulary ?? { numbers: new Map(), terms: [] };
  const places = new Map<Action, number>();
  known?.actions.forEach((action, place) => places.set(action, place));
  const lengths = new Uint16Array(actions.length * fields.length);
  const analysedStarts = new Uint32Array(actions.length + 1);
  const analysed = new Numbers();
  actions.forEach((action, place) => {
    const before = places.get(action);
    const own = lengths.subarray(place * fields.length, (place + 1) * fields.length);
    if (known === undefined || before === undefined) {
      analyse(action, vocabulary, analysed, own);
    } else {
      analysed.append(known.analysed.subarray(known.analysedStarts[before], known.analysedStarts[before + 1]));
      own.set(known.lengths.subarray(before * fields.length, (before + 1) * fields.length));
    }
    analysedStarts[place + 1] = analysed.length;
  });
  const deeds = Uint8Array.from(actions, ({ name }) => deedOf(wordsIn(name.slice(name.lastIndexOf(SEPARATOR) + 2)).flatMap((w) => w.terms)));
  const entries = analysed.taken();
  return { deeds, actions, vocabulary, lengths, analysed: entries, analysedStarts, ...inverted(entries, analysedStarts, vocabulary.terms.length) };
}

const counts = new Map<number, number>();

function analyse(action: Action, { numbers, terms }: Vocabulary, into: Numbers, lengths: Uint16Array): void {
  counts.clear();
  const count = (term: string, field: number): void => {
    let number = numbers.get(term);
    if (number === undefined) {
      number = terms.length;
      numbers.set(term, number);
      terms.push(term);
    }
    const key = number * 8 + field;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  };
  eachText(action, (field, text) => {
    let last = "";
    for (const { terms: parts, whole, plain } of wordsIn(text)) {
      if (field !== 5) { for (const part of parts) { if (last) count(last + " " + part, field); last = part; } }
      if (field !== 5) count("=" + plain, field);
      for (const part of parts) count(part, field);
      if (whole !== undefined) count(whole, field);
      lengths[field] = Math.min(LENGTH_LIMIT, (lengths[field] ?? 0) + parts.length);
    }
  });
  for (const [key, often] of counts) into.push(Math.floor(key / 8) * 256 + packed(key % 8, often));
}

/** By term instead of by action. Actions are gone through in order, so that each term's are in order too. */
function inverted(
  analysed: Uint32Array,
  analysedStarts: Uint32Array,
  terms: number,
): Pick<Postings, "terms" | "starts" | "holders" | "places" | "frequencies"> {
  const starts = new Uint32Array(terms + 1);
  for (const entry of analysed) starts[(entry >>> 8) + 1] = (starts[(entry >>> 8) + 1] ?? 0) + 1;
  for (let term = 0; term < terms; term++) starts[term + 1] = (starts[term + 1] ?? 0) + (starts[term] ?? 0);
  const next = starts.slice(0, terms);
  const holders = new Uint32Array(analysed.length);
  const places = new Uint8Array(analysed.length);
  const frequencies = new Uint32Array(terms);
  for (let action = 0; action + 1 < analysedStarts.length; action++) {
    const end = analysedStarts[action + 1] ?? 0;
    for (let at = analysedStarts[action] ?? 0; at < end; at++) {
      const entry = analysed[at] ?? 0;
      const term = entry >>> 8;
      const slot = next[term] ?? 0;
      next[term] = slot + 1;
      holders[slot] = action;
      places[slot] = entry & 255;
      if (slot === starts[term] || holders[slot - 1] !== action) frequencies[term] = (frequencies[term] ?? 0) + 1;
    }
  }
  return { terms, starts, holders, places, frequencies };
}

/** A list of numbers that grows without becoming a list of objects. */
class Numbers {
  #held = new Uint32Array(1024);
  length = 0;

  push(number: number): void {
    this.#reserve(1);
    this.#held[this.length++] = number;
  }

  append(numbers: Uint32Array): void {
    this.#reserve(numbers.length);
    this.#held.set(numbers, this.length);
    this.length += numbers.length;
  }

  taken(): Uint32Array {
    return this.#held.slice(0, this.length);
  }

  #reserve(more: number): void {
    if (this.length + more <= this.#held.length) return;
    const held = new Uint32Array(Math.max(this.length + more, Math.ceil(this.#held.length * 1.5)));
    held.set(this.#held);
    this.#held = held;
  }
}
