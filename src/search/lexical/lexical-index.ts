import type { Action } from "../../core/action.ts";
import type { Hit, HitOptions, Searchable } from "../hits.ts";
import { runToEnd, type Steps } from "../steps.ts";
import { getShortName, type Postings, postingSteps } from "./postings.ts";
import { getUsualWeight, parseSearchQuery, type QueryTerm } from "./query.ts";
import { createScratch, findScoreCutoff, type LexicalScores, type ScoreScratch, scoreActions } from "./rank.ts";
import { spellingSteps, type TermSpellings } from "./spellings.ts";
import { createSearchScope, type SearchScope, TermLookup } from "./term-lookup.ts";
import { detectVerbs, particles } from "./tokenize.ts";
import { LEAST_SCORE } from "./weights.ts";

/** Comes before a comma-separated list of names. */
const SELECT_PREFIX = "select:";
export const isSelection = (query: string): boolean =>
  query.slice(0, SELECT_PREFIX.length).toLowerCase() === SELECT_PREFIX;

export interface LexicalResult {
  readonly hits: readonly Hit[];
  /** The words of the query, as written, that match nothing visible. */
  readonly unmatched: readonly string[];
}

export interface LexicalOptions extends HitOptions {
  /** The entries are notes: a faint match counts, and so do the words of a query that has only stop words. */
  readonly inNotes?: boolean;
}

export interface LexicalIndex {
  /** Ranks as if hidden actions did not exist. The query is a text, or `select:` and names with commas. */
  search(query: string, view: Searchable, options: LexicalOptions): LexicalResult;
}

const NAMES_PER_STEP = 512;
export const createLexicalIndex = (actions: readonly Action[], previous?: LexicalIndex): LexicalIndex =>
  runToEnd(lexicalIndexSteps(actions, previous));

/** Reuses the analysis of actions that `previous` knows. `prepare` also builds the tables for the first search. */
export function* lexicalIndexSteps(
  actions: readonly Action[],
  previous?: LexicalIndex,
  prepare = false,
): Steps<LexicalIndex> {
  const known = previous instanceof WordIndex ? previous.postings : undefined;
  const index = new WordIndex(yield* postingSteps(actions, known));
  if (prepare) yield* index.prepare();
  return index;
}

class WordIndex implements LexicalIndex {
  readonly postings: Postings;
  readonly #scopes = new WeakMap<Searchable, SearchScope>();
  readonly #scratch: ScoreScratch;
  #spellings: TermSpellings | undefined;
  #byName: ReadonlyMap<string, readonly Action[]> | undefined;

  constructor(postings: Postings) {
    this.postings = postings;
    this.#scratch = createScratch(postings.actions.length);
  }

  *prepare(): Steps<void> {
    this.#byName = yield* nameSteps(this.postings.actions);
    this.#spellings = yield* spellingSteps(this.postings);
  }

  search(query: string, view: Searchable, options: LexicalOptions): LexicalResult {
    const text = query.trim();
    if (isSelection(text)) return this.#select(text.slice(SELECT_PREFIX.length), view, options);
    const { limit, order, accepts = () => true, inNotes = false } = options;
    const scope = this.#getScope(view);
    const named = this.#findByName(text, view);
    const lookup = new TermLookup(this.postings, scope, () => this.#getSpellings());
    const terms = parseSearchQuery(text, lookup, inNotes);
    const asked = { terms, verbs: detectVerbs(text), floor: inNotes ? 0 : LEAST_SCORE };
    const scores = scoreActions(asked, this.postings, scope, this.#scratch);
    const found = this.#pickBest(scores, named, options);
    const exact = named.filter(accepts).map((action) => ({ action, score: 1 }));
    const hits = [...exact, ...found].sort(order).slice(0, limit);
    return { hits, unmatched: named.length > 0 ? [] : listUnmatched(terms, hits.length > 0) };
  }

  #select(list: string, view: Searchable, { limit, order, accepts = () => true }: HitOptions): LexicalResult {
    const hits = new Map<Action, Hit>();
    const unmatched: string[] = [];
    for (const name of list.split(",").map((each) => each.trim())) {
      if (name === "") continue;
      const named = this.#findByName(name, view);
      if (named.length === 0) unmatched.push(name);
      const accepted = named.filter(accepts).map((action) => ({ action, score: 1 }));
      for (const hit of accepted.sort(order)) if (!hits.has(hit.action)) hits.set(hit.action, hit);
    }
    return { hits: [...hits.values()].slice(0, limit), unmatched };
  }

  /** The visible actions with this whole name, short name or alias, ignoring case. */
  #findByName(name: string, view: Searchable): readonly Action[] {
    this.#byName ??= runToEnd(nameSteps(this.postings.actions));
    return (this.#byName.get(name.toLowerCase()) ?? []).filter((action) => view.sees(action));
  }

  /** At least the best `limit` without the named actions; more if the last of them has equals. */
  #pickBest(
    { places, scores }: LexicalScores,
    named: readonly Action[],
    { limit, accepts }: HitOptions,
  ): readonly Hit[] {
    const { actions } = this.postings;
    const isWanted = (place: number): boolean => {
      const action = actions[place];
      return action !== undefined && !named.includes(action) && (accepts?.(action) ?? true);
    };
    const isFiltered = accepts !== undefined || named.length > 0;
    const wanted = isFiltered ? places.map(isWanted) : undefined;
    const least = findScoreCutoff(wanted === undefined ? scores : scores.filter((_, at) => wanted[at]), limit);
    const hits: Hit[] = [];
    for (let at = 0; at < places.length; at++) {
      const score = scores[at] ?? 0;
      const action = score < least || wanted?.[at] === false ? undefined : actions[places[at] ?? 0];
      if (action !== undefined) hits.push({ action, score });
    }
    return hits;
  }

  #getSpellings(): TermSpellings {
    this.#spellings ??= runToEnd(spellingSteps(this.postings));
    return this.#spellings;
  }

  #getScope(view: Searchable): SearchScope {
    const scope = this.#scopes.get(view) ?? createSearchScope(this.postings, view);
    this.#scopes.set(view, scope);
    return scope;
  }
}

/**
 * A word is unmatched if all its parts are. A similar word counts as a match only if there are hits. Stop words are left
 * out, and if there are hits also numbers and words such as `two` and `use`.
 */
function listUnmatched(terms: readonly QueryTerm[], hasHits: boolean): readonly string[] {
  const isMatched = ({ found }: QueryTerm): boolean => (found[0]?.likeness ?? 0) >= (hasHits ? 0.01 : 1);
  const matched = new Set(terms.filter(isMatched).map(({ written }) => written));
  const tells = (word: string): boolean => !particles.has(word) && !(hasHits && getUsualWeight(word) < 1);
  const telling = terms.filter(({ onlyNames, written }) => !onlyNames && tells(written.toLowerCase()));
  return [...new Set(telling.map(({ written }) => written))].filter((word) => !matched.has(word));
}

function* nameSteps(actions: readonly Action[]): Steps<ReadonlyMap<string, readonly Action[]>> {
  const byName = new Map<string, Action[]>();
  for (const [place, action] of actions.entries()) {
    if (place % NAMES_PER_STEP === 0) yield;
    const { name: whole, entry, aliases } = action;
    for (const name of new Set([whole, entry, getShortName(action), ...aliases].map((each) => each.toLowerCase()))) {
      const same = byName.get(name);
      if (same === undefined) byName.set(name, [action]);
      else same.push(action);
    }
  }
  return byName;
}
