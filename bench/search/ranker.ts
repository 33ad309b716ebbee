import type { Action } from "../../src/index.ts";
import type { Searchable } from "../../src/search/hits.ts";
import type { Entry } from "./corpus.ts";

/** One implementation of tool search. */
export interface Ranker {
  readonly name: string;
  build(entries: readonly Entry[]): Promise<Ranking> | Ranking;
}

export interface Ranking {
  /** Ids, best first. */
  rank(query: string, limit: number): Promise<readonly string[]> | readonly string[];
  close?(): void;
}

/** A view of all actions except the hidden ones. */
export function viewOf(actions: readonly Action[], hidden: ReadonlySet<Action> = new Set()): Searchable {
  const seen = hidden.size === 0 ? actions : actions.filter((action) => !hidden.has(action));
  return { snapshot: { actions }, sees: (action) => !hidden.has(action), actions: () => seen };
}
