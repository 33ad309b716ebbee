import type { Action } from "../../core/action.ts";
import type { Hit, HitOrder, Searchable } from "../hits.ts";
import { runToEnd, type Steps } from "../steps.ts";
import { getShortName, type Postings, postingSteps } from "./postings.ts";
import { parseSearchQuery, type QueryTerm } from "./query.ts";
import { createScratch, findScoreCutoff, type LexicalScores, type ScoreScratch, scoreActions } from "./rank.ts";
import { spellingSteps, type TermSpellings } from "./spellings.ts";
import { createSearchScope, type SearchScope, TermLookup } from "./term-lookup.ts";
import { detectVerbs } from "./tokenize.ts";

/** Before names with commas between: just these are wanted. */
const SELECT_PREFIX = "select:";

export function isSelection(query: string): boolean {
  return query.slice(0, SELECT_PREFIX.length).toLowerCase() === SELECT_PREFIX;
}

export interface LexicalOptions {
  readonly limit: number;
  readonly order: HitOrder;
  /** Only these are wanted; what it refuses is still counted among what there is. */
  readonly accepts?: (action: Action) => boolean;
}

export interface LexicalResult {
  /** Best first. Empty when nothing fits. */
  readonly hits: readonly Hit[];
  /** The words of the query, as written, that led to nothing in view. */
  readonly unmatched: readonly string[];
}

/** Finds actions by the words of their names, descriptions, labels and parameters. */
export interface LexicalIndex {
  /**
   * Ranks what the view lets through, and answers as if there were nothing else. Takes any text; `select:` before names
   * with commas between asks for just these.
   */
  search(query: string, view: Searchable, options: LexicalOptions): LexicalResult;
}

const NAMES_A_STEP = 512;

/** Actions that `previous` already knew, as the same objects, are not analysed again. */
export function createLexicalIndex(actions: readonly Action[], previous?: LexicalIndex): LexicalIndex {
  return runToEnd(wordIndexSteps(actions, previous));
}

/** The same in steps, with all that the first search would have to make. */
export function* lexicalIndexSteps(actions: readonly Action[], previous?: LexicalIndex): Steps<LexicalIndex> {
  const index = yield* wordIndexSteps(actions, previous);
  yield* index.prepare();
  return index;
}

/** The same, without what the first search makes. */
export function* wordIndexSteps(actions: readonly Action[], previous?: LexicalIndex): Steps<WordIndex> {
  return new WordIndex(yield* postingSteps(actions, previous instanceof WordIndex ? previous.postings : undefined));
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
    const asked = query.trim();
    if (isSelection(asked)) return this.#selected(asked.slice(SELECT_PREFIX.length), view, options);
    const { limit, order, accepts } = options;
    const scope = this.#scopeOf(view);
    const called = this.#called(asked, view);
    const wanted = parseSearchQuery(asked, new TermLookup(this.postings, scope, () => this.#spell()));
    const found = this.#accepted(
      scoreActions(wanted, detectVerbs(asked), this.postings, scope, this.#scratch),
      called,
      accepts,
    );
    const named = called.filter((action) => accepts?.(action) ?? true).map((action) => ({ action, score: 1 }));
    const hits = [...named, ...this.#best(found, limit)].sort(order).slice(0, limit);
    return { hits, unmatched: called.length > 0 ? [] : listUnmatched(wanted, hits.length > 0) };
  }

  #selected(list: string, view: Searchable, { limit, order, accepts }: LexicalOptions): LexicalResult {
    const hits = new Map<Action, Hit>();
    const unmatched: string[] = [];
    for (const name of list.split(",").map((each) => each.trim())) {
      if (name === "") continue;
      const called = this.#called(name, view);
      if (called.length === 0) unmatched.push(name);
      const wanted = called.filter((action) => accepts?.(action) ?? true).map((action) => ({ action, score: 1 }));
      for (const hit of wanted.sort(order)) if (!hits.has(hit.action)) hits.set(hit.action, hit);
    }
    return { hits: [...hits.values()].slice(0, limit), unmatched };
  }

  /** The visible actions with this name, with or without where it comes from, or alias, whatever the case. */
  #called(name: string, view: Searchable): readonly Action[] {
    this.#byName ??= runToEnd(nameSteps(this.postings.actions));
    return (this.#byName.get(name.toLowerCase()) ?? []).filter((action) => view.sees(action));
  }

  #accepted(scores: LexicalScores, called: readonly Action[], accepts: LexicalOptions["accepts"]): LexicalScores {
    if (accepts === undefined && called.length === 0) return scores;
    const isWanted = (place: number): boolean => {
      const action = this.postings.actions[place];
      return action !== undefined && !called.includes(action) && (accepts?.(action) ?? true);
    };
    const kept = scores.places.map(isWanted);
    return {
      places: scores.places.filter((_, at) => kept[at]),
      scores: scores.scores.filter((_, at) => kept[at]),
    };
  }

  /** At least the best `limit`; more when the last of them has equals. */
  #best({ places, scores }: LexicalScores, limit: number): readonly Hit[] {
    const least = findScoreCutoff(scores, limit);
    const hits: Hit[] = [];
    for (let at = 0; at < places.length; at++) {
      const score = scores[at] ?? 0;
      const action = score < least ? undefined : this.postings.actions[places[at] ?? 0];
      if (action !== undefined) hits.push({ action, score });
    }
    return hits;
  }

  #spell(): TermSpellings {
    this.#spellings ??= runToEnd(spellingSteps(this.postings));
    return this.#spellings;
  }

  #scopeOf(view: Searchable): SearchScope {
    let scope = this.#scopes.get(view);
    if (scope === undefined) {
      scope = createSearchScope(this.postings, view);
      this.#scopes.set(view, scope);
    }
    return scope;
  }
}

/**
 * A word of several parts is unmatched only when all of them are. What stood in for a word counts as it, but not where
 * that led to nothing either: then it would look as if somebody had the word.
 */
function listUnmatched(wanted: readonly QueryTerm[], standInsCount: boolean): readonly string[] {
  const isMatched = ({ found }: QueryTerm): boolean => (found[0]?.likeness ?? 0) >= (standInsCount ? 0.01 : 1);
  const matched = new Set(wanted.filter(isMatched).map(({ written }) => written));
  return [...new Set(wanted.map(({ written }) => written))].filter((word) => !matched.has(word));
}

function* nameSteps(actions: readonly Action[]): Steps<ReadonlyMap<string, readonly Action[]>> {
  const named = new Map<string, Action[]>();
  for (const [place, action] of actions.entries()) {
    if (place % NAMES_A_STEP === 0) yield;
    const { name: whole, entry, aliases } = action;
    for (const name of new Set([whole, entry, getShortName(action), ...aliases].map((each) => each.toLowerCase()))) {
      const held = named.get(name);
      if (held === undefined) named.set(name, [action]);
      else held.push(action);
    }
  }
  return named;
}
