import type { Lexical } from "./compiled.ts";
import type { Entry } from "./corpus.ts";
import { hybrid } from "./hybrid.ts";
import { fts5 } from "./peers/fts5.ts";
import { mastra } from "./peers/mastra.ts";
import { minisearch } from "./peers/minisearch.ts";
import { type Ranker, type Ranking, viewOf } from "./ranker.ts";

export const OURS = "quartermaster, words";

/** Quartermaster's rankers first, then the others. To add a ranker, add a line here. */
export async function rankers(lexical: Lexical, say: (line: string) => void): Promise<readonly Ranker[]> {
  return [
    { name: OURS, build: (entries) => byWords(lexical, entries) },
    ...hybrid(lexical, say),
    { name: "SQLite FTS5, porter", build: fts5 },
    { name: "MiniSearch, defaults", build: (entries) => minisearch(entries, {}) },
    {
      name: "MiniSearch, tuned",
      build: (entries) => minisearch(entries, { boost: { name: 3, server: 1.5 }, prefix: true, fuzzy: 0.2 }),
    },
    ...(await mastra(say)),
  ];
}

function byWords({ createLexicalIndex, createHitOrder }: Lexical, entries: readonly Entry[]): Ranking {
  const actions = entries.map(({ action }) => action);
  const ids = new Map(entries.map(({ id, action }) => [action, id]));
  const index = createLexicalIndex(actions);
  const view = viewOf(actions);
  const order = createHitOrder();
  return {
    rank: (query, limit) => index.search(query, view, { limit, order }).hits.map(({ action }) => ids.get(action) ?? ""),
  };
}
