import type { Action } from "../../core/action.ts";
import { isRecord } from "../../core/json.ts";
import { getNamespace, SEPARATOR } from "../../core/names.ts";
import type { Steps } from "../steps.ts";
import { detectVerbs, tokenize } from "./tokenize.ts";

export const lexicalFields = ["name", "namespace", "labels", "description", "parameters", "details"] as const;

export type LexicalField = (typeof lexicalFields)[number];

const DESCRIPTION_LIMIT = 4_000;
const DETAILS_LIMIT = 6_000;
const NODES = 300;
const DEPTH = 8;

type Visit = (field: LexicalField, text: string) => void;

function visitTexts(action: Action, visit: Visit): void {
  const { name, aliases, tags, description, inputSchema, examples } = action;
  visit("name", getShortName(action));
  visit("namespace", getNamespace(name));
  for (const label of [...aliases, ...tags]) visit("labels", label);
  visit("description", description.slice(0, DESCRIPTION_LIMIT));
  const details = limitTotal(visit);
  visitParameters(inputSchema, details);
  for (const { args, description: purpose } of examples) {
    for (const key of Object.keys(args)) details("details", key);
    if (purpose !== undefined) details("details", purpose);
  }
}

/** `create_issue` of `mcp__github__create_issue`. */
export const getShortName = ({ name }: Action): string => name.slice(name.lastIndexOf(SEPARATOR) + SEPARATOR.length);

function limitTotal(visit: Visit): Visit {
  let left = DETAILS_LIMIT;
  return (field, text) => {
    if (left <= 0) return;
    visit(field, text.slice(0, left));
    left -= text.length;
  };
}

function visitParameters(schema: unknown, visit: Visit): void {
  let nodes = 0;
  const walk = (part: unknown, depth: number): void => {
    if (depth > DEPTH || ++nodes > NODES) return;
    if (Array.isArray(part)) for (const each of part) walk(each, depth + 1);
    if (!isRecord(part)) return;
    for (const text of [part.title, part.description]) if (typeof text === "string") visit("details", text);
    if (Array.isArray(part.enum)) {
      for (const value of part.enum) if (typeof value === "string") visit("details", value);
    }
    for (const keyword of ["properties", "$defs", "definitions"]) {
      const named = part[keyword];
      if (!isRecord(named)) continue;
      for (const [name, value] of Object.entries(named)) {
        if (keyword === "properties") visit("parameters", name);
        walk(value, depth + 1);
      }
    }
    for (const keyword of ["items", "anyOf", "oneOf", "allOf", "additionalProperties"]) walk(part[keyword], depth + 1);
  };
  walk(schema, 0);
}

/** Terms and their numbers. It only grows, so that older postings stay valid. */
type Vocabulary = { readonly numbers: Map<string, number>; readonly terms: string[] };

/** Which actions hold which terms, in which fields and how often. Actions are indexes into `actions`. */
export interface Postings {
  readonly actions: readonly Action[];
  readonly vocabulary: Vocabulary;
  /** How many terms these postings know. The vocabulary may have more by now. */
  readonly terms: number;
  /** The first entry of each term. */
  readonly starts: Uint32Array;
  /** The action of each entry. An action has one entry per field that holds the term, in a row. */
  readonly holders: Uint32Array;
  /** The field and the count of each entry: see `packPlace`. */
  readonly places: Uint8Array;
  readonly frequencies: Uint32Array;
  /** How many words each field of each action has, at most `LENGTH_LIMIT`. */
  readonly lengths: Uint16Array;
  /** The verbs of each action's name: see `detectVerbs`. */
  readonly verbs: Uint8Array;
  /** The entries by action: term × 256 + place. */
  readonly analysed: Uint32Array;
  readonly analysedStarts: Uint32Array;
}

export const LENGTH_LIMIT = 1023;
const OFTEN = 31;
export const unpackField = (place: number): number => place & 7;
export const unpackCount = (place: number): number => place >> 3;
const packPlace = (field: number, count: number): number => field | (Math.min(count, OFTEN) << 3);
const ACTIONS_PER_STEP = 32;
const ENTRIES_PER_STEP = 65_536;

/** Reuses the entries of action objects that `previous` knows. */
export function* postingSteps(actions: readonly Action[], previous?: Postings): Steps<Postings> {
  const known = previous !== undefined && isMostlyAlive(previous) ? previous : undefined;
  const vocabulary = known?.vocabulary ?? { numbers: new Map(), terms: [] };
  const places = new Map<Action, number>();
  for (const [place, action] of known?.actions.entries() ?? []) {
    places.set(action, place);
    if (place % ENTRIES_PER_STEP === 0) yield;
  }
  const lengths = new Uint16Array(actions.length * lexicalFields.length);
  const analysedStarts = new Uint32Array(actions.length + 1);
  const analysed = new NumberList();
  const verbs = new Uint8Array(actions.length);
  for (const [place, action] of actions.entries()) {
    // After each action: it may have a hundred thousand characters.
    yield;
    verbs[place] = detectVerbs(getShortName(action));
    const before = places.get(action);
    const own = lengths.subarray(place * lexicalFields.length, (place + 1) * lexicalFields.length);
    if (known === undefined || before === undefined) {
      analyse(action, vocabulary, analysed, own);
    } else {
      analysed.append(known.analysed.subarray(known.analysedStarts[before], known.analysedStarts[before + 1]));
      own.set(known.lengths.subarray(before * lexicalFields.length, (before + 1) * lexicalFields.length));
    }
    analysedStarts[place + 1] = analysed.length;
  }
  const entries = analysed.toArray();
  return {
    actions,
    vocabulary,
    lengths,
    verbs,
    analysed: entries,
    analysedStarts,
    ...(yield* invertSteps(entries, analysedStarts, vocabulary.terms.length)),
  };
}

/** A vocabulary of mostly unused terms is not reused. */
function isMostlyAlive({ frequencies, terms }: Postings): boolean {
  let alive = 0;
  for (const frequency of frequencies) if (frequency > 0) alive++;
  return alive * 2 >= terms;
}

const counts = new Map<number, number>();

function analyse(action: Action, { numbers, terms }: Vocabulary, into: NumberList, lengths: Uint16Array): void {
  counts.clear();
  const count = (term: string, field: number): void => {
    let number = numbers.get(term);
    if (number === undefined) {
      number = terms.length;
      numbers.set(term, number);
      terms.push(term);
    }
    const key = number * lexicalFields.length + field;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  };
  visitTexts(action, (name, text) => {
    const field = lexicalFields.indexOf(name);
    for (const { terms: parts, whole } of tokenize(text)) {
      for (const part of parts) count(part, field);
      if (whole !== undefined) count(whole, field);
      lengths[field] = Math.min(LENGTH_LIMIT, (lengths[field] ?? 0) + parts.length);
    }
  });
  for (const [key, often] of counts) {
    into.push(Math.floor(key / lexicalFields.length) * 256 + packPlace(key % lexicalFields.length, often));
  }
}

/** Groups the entries by term, in the order of the actions. */
function* invertSteps(analysed: Uint32Array, analysedStarts: Uint32Array, terms: number) {
  const starts = new Uint32Array(terms + 1);
  for (let from = 0; from < analysed.length; from += ENTRIES_PER_STEP) {
    for (const entry of analysed.subarray(from, from + ENTRIES_PER_STEP)) {
      starts[(entry >>> 8) + 1] = (starts[(entry >>> 8) + 1] ?? 0) + 1;
    }
    yield;
  }
  for (let term = 0; term < terms; term++) starts[term + 1] = (starts[term + 1] ?? 0) + (starts[term] ?? 0);
  const next = starts.slice(0, terms);
  const holders = new Uint32Array(analysed.length);
  const places = new Uint8Array(analysed.length);
  const frequencies = new Uint32Array(terms);
  for (let action = 0; action + 1 < analysedStarts.length; action++) {
    if (action % ACTIONS_PER_STEP === 0) yield;
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

class NumberList {
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

  toArray(): Uint32Array {
    return this.#held.slice(0, this.length);
  }

  #reserve(more: number): void {
    if (this.length + more <= this.#held.length) return;
    const held = new Uint32Array(Math.max(this.length + more, Math.ceil(this.#held.length * 1.5)));
    held.set(this.#held);
    this.#held = held;
  }
}
