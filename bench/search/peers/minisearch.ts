import MiniSearch, { type SearchOptions } from "minisearch";
import { type Entry, textsOf } from "../corpus.ts";
import type { Ranking } from "../ranker.ts";

export const miniFields = ["name", "server", "description", "parameters"];

export function minisearch(entries: readonly Entry[], searchOptions: SearchOptions): Ranking {
  const index = new MiniSearch({ fields: miniFields, searchOptions });
  index.addAll(entries.map(({ id, action }) => ({ id, ...textsOf(action) })));
  return {
    rank: (query, limit) =>
      index
        .search(query)
        .slice(0, limit)
        .map(({ id }) => String(id)),
  };
}
