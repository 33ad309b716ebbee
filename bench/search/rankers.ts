import type { Action } from "../../src/index.ts";
import type { Searchable } from "../../src/search/searchable.ts";
import type { Lexical } from "./compiled.ts";
import type { Entry } from "./corpus.ts";
import { fts5 } from "./peers/fts5.ts";
import { mastra } from "./peers/mastra.ts";
import { minisearch } from "./peers/minisearch.ts";

/** One way of finding tools. */
export interface Ranker {
  readonly name: string;
  build(entries: readonly Entry[]): Promise<Ranking> | Ranking;
}

export interface Ranking {
  /** Ids, best first. */
  rank(query: string, limit: number): Promise<readonly string[]> | readonly string[];
  close?(): void;
}

export const OURS = "quartermaster, words";

/** Ours first, then the others. A new ranker is one line here. */
export async function rankers(lexical: Lexical, say: (line: string) => void): Promise<readonly Ranker[]> {
  return [
    { name: OURS, build: (entries) => byWords(lexical, entries) },
    { name: "SQLite FTS5, porter", build: fts5 },
    { name: "MiniSearch, defaults", build: (entries) => minisearch(entries, {}) },
    {
      name: "MiniSearch, tuned",
      build: (entries) => minisearch(entries, { boost: { name: 3, server: 1.5 }, prefix: true, fuzzy: 0.2 }),
    },
    ...(await mastra(say)),
  ];
}

function byWords({ lexicalIndex, hitOrder }: Lexical, entries: readonly Entry[]): Ranking {
  const actions = entries.map(({ action }) => action);
  const ids = new Map(entries.map(({ id, action }) => [action, id]));
  const index = lexicalIndex(actions);
  const view = viewOf(actions);
  const order = hitOrder();
  return {
    rank: (query, limit) => index.search(query, view, { limit, order }).hits.map(({ action }) => ids.get(action) ?? ""),
  };
}

/** A view that sees all but the hidden ones. */
export function viewOf(actions: readonly Action[], hidden: ReadonlySet<Action> = new Set()): Searchable {
  const seen = hidden.size === 0 ? actions : actions.filter((action) => !hidden.has(action));
  return { snapshot: { actions }, sees: (action) => !hidden.has(action), actions: () => seen };
}
