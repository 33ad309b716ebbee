import type { Action } from "../../core/action.ts";
import type { Hit, HitOrder } from "../hit.ts";
import type { Searchable } from "../searchable.ts";
import { deedOf } from "./deeds.ts";
import { wordsIn } from "./words.ts";
import { type Postings, postingsOf } from "./postings.ts";
import { wantedBy } from "./query.ts";
import { type Scores, type Scratch, scored, scratchFor } from "./rank.ts";
import { type Scope, scopeOf } from "./scope.ts";
import { type Spellings, spellingsOf } from "./spellings.ts";
import { leastOfBest } from "./top.ts";

export interface LexicalOptions {
  readonly limit: number;
  readonly order: HitOrder;
  /** Only these are wanted; what it refuses is still counted among what there is. */
  readonly accepts?: (action: Action) => boolean;
}

export interface LexicalFound {
  /** Best first. Empty when nothing fits. */
  readonly hits: readonly Hit[];
  /** The words of the query, as written, that led to nothing in view. */
  readonly unmatched: readonly string[];
}

/** Finds actions by the words of their names, descriptions, labels and parameters. */
export interface LexicalIndex {
  /** Ranks what the view lets through, and answers as if there were nothing else. Takes any text. */
  search(query: string, view: Searchable, options: LexicalOptions): LexicalFound;
}

/** Actions that `previous` already knew, as the same objects, are not analysed again. */
export function lexicalIndex(actions: readonly Action[], previous?: LexicalIndex): LexicalIndex {
  return new WordIndex(postingsOf(actions, previous instanceof WordIndex ? previous.postings : undefined));
}

class WordIndex implements LexicalIndex {
  readonly postings: Postings;
  readonly #scopes = new WeakMap<Searchable, Scope>();
  readonly #scratch: Scratch;
  #spellings: Spellings | undefined;
  #byName: ReadonlyMap<string, readonly Action[]> | undefined;

  constructor(postings: Postings) {
    this.postings = postings;
    this.#scratch = scratchFor(postings.actions.length);
  }

  search(query: string, view: Searchable, { limit, order, accepts = () => true }: LexicalOptions): LexicalFound {
    const asked = query.trim();
    if (asked.startsWith(SELECT)) return this.#selected(asked.slice(SELECT.length), view, { limit, order, accepts });
    const wanted = wantedBy(asked, this.postings, this.#scopeOf(view), () => this.#spell());
    const named = this.#called(asked, view).filter(accepts);
    const found = scored(wanted, this.postings, this.#scopeOf(view), this.#scratch, deedOf(wordsIn(asked.slice(0, 300)).flatMap((w) => w.terms)));
    const hits = [...named.map((action) => ({ action, score: 1 })), ...this.#best(found, limit, accepts, named)].sort(order).slice(0, limit);
    const matched = new Set(wanted.filter((each) => each.found.length > 0).map(({ written }) => written));
    const unmatched = named.length > 0 ? [] : wanted.map(({ written }) => written).filter((word) => !matched.has(word));
    return { hits, unmatched: [...new Set(unmatched)] };
  }
  
  #selected(list: string, view: Searchable, { limit, order, accepts = () => true }: LexicalOptions): LexicalFound {
    const hits = new Map<Action, Hit>();
    const unmatched: string[] = [];
    for (const name of list.split(",").map((each) => each.trim())) {
      const called = this.#called(name, view);
      if (called.length === 0 && name !== "") unmatched.push(name);
      const own = called.filter(accepts).map((action) => ({ action, score: 1 }));
      for (const hit of own.sort(order)) hits.set(hit.action, hit);
    }
    return { hits: [...hits.values()].slice(0, limit), unmatched };
  }

  #called(name: string, view: Searchable): readonly Action[] {
    this.#byName ??= namesOf(this.postings.actions);
    const scope = this.#scopeOf(view);
    return (this.#byName.get(name.toLowerCase()) ?? []).filter((a) => view.sees(a) || scope === undefined);
  }

  #best({ places, scores }: Scores, limit: number, accepts: (action: Action) => boolean, named: readonly Action[]): readonly Hit[] {
    const actions = this.postings.actions;
    const least = leastOfBest(scores, limit + named.length);
    const hits: Hit[] = [];
    for (let at = 0; at < places.length; at++) {
      const score = scores[at] ?? 0;
      const action = score < least || score === 0 ? undefined : actions[places[at] ?? 0];
      if (action !== undefined && !named.includes(action) && accepts(action)) hits.push({ action, score });
    }
    return hits;
  }

  #spell(): Spellings {
    this.#spellings ??= spellingsOf(this.postings);
    return this.#spellings;
  }

  #scopeOf(view: Searchable): Scope {
    let scope = this.#scopes.get(view);
    if (scope === undefined) {
      scope = scopeOf(this.postings, view);
      this.#scopes.set(view, scope);
    }
    return scope;
  }
}

const SELECT = "select:";

function namesOf(actions: readonly Action[]): ReadonlyMap<string, readonly Action[]> {
  const named = new Map<string, Action[]>();
  for (const action of actions) {
    for (const name of new Set([action.name, ...action.aliases].map((each) => each.toLowerCase()))) {
      const held = named.get(name);
      if (held === undefined) named.set(name, [action]);
      else held.push(action);
    }
  }
  return named;
}
