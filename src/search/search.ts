import type { Action } from "../core/action.ts";
import { clip, omitUndefined } from "../core/json.ts";
import type { SearchType } from "../core/surface-choice.ts";
import { createHitOrder, fuseHits, type Hit, type Searchable } from "./hits.ts";
import { isSelection, type LexicalIndex, lexicalIndexSteps } from "./lexical/lexical-index.ts";
import { searchByPattern, searchExact } from "./pattern-search.ts";
import type { SemanticIndex } from "./semantic/semantic-index.ts";
import { runInSlices } from "./steps.ts";

export interface CatalogSearchRequest {
  readonly query: string;
  /** Default: `hybrid` if an embedder is configured, else `fts`. */
  readonly type?: SearchType;
  /** Default: five, without those that score far below the first. */
  readonly limit?: number;
  readonly accepts?: (action: Action) => boolean;
}

export interface CatalogSearchResult {
  readonly hits: readonly Hit[];
  readonly requested: SearchType;
  /** The search that was done. `note` says why if it is not the requested one. */
  readonly effective: SearchType;
  /** The words of the query that no visible action has. */
  readonly unmatched: readonly string[];
  readonly note?: string;
  /** Matches that `accepts` refuses, if nothing else matches. */
  readonly elsewhere?: readonly Hit[];
}

export interface CatalogSearchOptions {
  readonly maxResults: number;
  /** Namespaces whose actions come first among equal scores. */
  readonly preferredNamespaces: readonly string[];
  /** The category of the actions on notes and collections. */
  readonly notesCategory?: string;
  readonly semantic?: SemanticIndex | undefined;
  /** Why there is no search by meaning. */
  readonly withoutMeaning?: string;
  readonly onPrepared: (actions: number) => void;
}

/** Finds actions in a view. Every surface, hint and command uses this search. */
export type CatalogSearch = (
  view: Searchable,
  request: CatalogSearchRequest,
  signal?: AbortSignal,
) => Promise<CatalogSearchResult>;

type FullRequest = CatalogSearchRequest & { readonly type: SearchType; readonly limit: number };
type Found = Omit<CatalogSearchResult, "requested" | "elsewhere">;

export const DEFAULT_HITS = 5;
/** Without a limit, hits below this share of the best score are left out. */
const FAR_BELOW = 0.25;
const HANDLE = /\b(?:note|collection)__\d|\$from\b/i;
const NOTE_WORD = /\b(?:notes?|collections?|handles?|infospace)\b/i;
/** How much actions on notes count: their verbs are common, and without a note in the query another tool is meant. */
const weighNoteActions = (query: string): number => (HANDLE.test(query) ? 2 : NOTE_WORD.test(query) ? 1 : 1 / 3);
/** How much an action counts that cannot be used now: a usable one that matches about as well comes first. */
const UNAVAILABLE_WEIGHT = 1 / 3;
const BELOW_EXACT = 0.99;
/** Lists to fuse or to weigh are longer than the result: a middling hit may be the best in the end. */
const RANKED_FROM = 50;
const UNMATCHED_LIMIT = 10;
const WORD_LIMIT = 40;

function isUnavailable({ readiness }: Action): boolean {
  try {
    return readiness?.() === "unavailable";
  } catch {
    return true;
  }
}

export function createCatalogSearch(options: CatalogSearchOptions): CatalogSearch {
  const { maxResults, preferredNamespaces, notesCategory, semantic, onPrepared } = options;
  const { withoutMeaning = "no embedder is configured." } = options;
  const order = createHitOrder(preferredNamespaces);
  let current: { readonly snapshot: unknown; readonly index: Promise<LexicalIndex> } | undefined;
  let previous: LexicalIndex | undefined;

  /** Builds the index on the first search of a catalog, in slices: a server may offer megabytes of text. */
  function getIndex({ snapshot }: Searchable): Promise<LexicalIndex> {
    if (current?.snapshot !== snapshot) current = { snapshot, index: buildIndex(snapshot.actions) };
    return current.index;
  }

  async function buildIndex(actions: readonly Action[]): Promise<LexicalIndex> {
    const index = await runInSlices(lexicalIndexSteps(actions, previous, true));
    previous = index;
    onPrepared(actions.length);
    return index;
  }

  /** Weighs the actions on notes and those that cannot be used now. An exact name keeps its score. */
  function pickBest(hits: readonly Hit[], { query, limit }: FullRequest): readonly Hit[] {
    const noteWeight = weighNoteActions(query);
    const weighed = hits.map(({ action, score }) => {
      const weight =
        (action.category === notesCategory ? noteWeight : 1) * (isUnavailable(action) ? UNAVAILABLE_WEIGHT : 1);
      return { action, score: weight === 1 || score >= 1 ? score : Math.min(weight * score, BELOW_EXACT) };
    });
    return weighed.sort(order).slice(0, limit);
  }

  async function attempt(view: Searchable, request: FullRequest, signal?: AbortSignal): Promise<Found> {
    const { query, type, limit, accepts } = request;
    const how = { limit, order, accepts };
    const count = Math.max(limit, RANKED_FROM);
    const rankByWords = async () => (await getIndex(view)).search(query, view, { ...how, limit: count });
    const byWords = async () => {
      const { hits, unmatched } = await rankByWords();
      return { hits: pickBest(hits, request), unmatched, effective: "fts" as const };
    };
    const onlyByWords = async (note: string) => ({ ...(await byWords()), note });
    switch (type) {
      case "exact":
        return { hits: searchExact(query, view, how), effective: "exact", unmatched: [] };
      case "regex": {
        const found = searchByPattern(query, view, how);
        if ("unreadable" in found) return onlyByWords(`The pattern ${found.unreadable}, so its words were searched.`);
        const note = found.complete ? undefined : "Not all actions were searched: the pattern needs too much work.";
        return omitUndefined({ hits: found.hits, effective: "regex", unmatched: [], note });
      }
      case "fts":
        return byWords();
      case "semantic":
      case "hybrid": {
        const byMeaning = await semantic?.search(query, view, { ...how, signal, limit: count });
        if (byMeaning === undefined || "unavailable" in byMeaning) {
          return onlyByWords(`Searched by words only: ${byMeaning?.unavailable ?? withoutMeaning}`);
        }
        if (type === "semantic")
          return { hits: pickBest(byMeaning.hits, request), effective: "semantic", unmatched: [] };
        const { hits, unmatched } = await rankByWords();
        const fused = fuseHits([hits, byMeaning.hits], { limit: count, order });
        return { hits: pickBest(fused, request), effective: "hybrid", unmatched };
      }
    }
  }

  return async (view, { query: text, type, limit: maxHits, accepts }, signal) => {
    const query = text.trim();
    const requested = type ?? (semantic === undefined ? "fts" : "hybrid");
    // A selection by name needs no search by meaning, and no request to the endpoint.
    const chosen = isSelection(query) ? "fts" : requested;
    const limit = Math.max(1, Math.min(Math.trunc(maxHits ?? DEFAULT_HITS), maxResults));
    if (query === "") return { hits: [], requested, effective: requested, unmatched: [] };
    const request = { query, type: chosen, limit };
    const found = await attempt(view, accepts === undefined ? request : { ...request, accepts }, signal);
    const unmatched = found.unmatched.slice(0, UNMATCHED_LIMIT).map((word) => clip(word, WORD_LIMIT));
    const least = maxHits === undefined ? FAR_BELOW * (found.hits[0]?.score ?? 0) : 0;
    const hits = found.hits.filter(({ score }) => score >= least);
    const result = { ...found, hits, requested, unmatched };
    if (found.hits.length > 0 || accepts === undefined) return result;
    const { hits: elsewhere } = await attempt(view, request, signal);
    return elsewhere.length === 0 ? result : { ...result, elsewhere };
  };
}
