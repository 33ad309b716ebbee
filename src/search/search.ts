import type { Action } from "../core/action.ts";
import { clip } from "../core/json.ts";
import type { SearchType } from "../core/surface-choice.ts";
import type { Searchable } from "./hits.ts";
import { createHitOrder, fuseHits, type Hit } from "./hits.ts";
import { isSelection, type LexicalIndex, lexicalIndexSteps } from "./lexical/lexical-index.ts";
import { searchByPattern, searchExact } from "./pattern-search.ts";
import type { SemanticIndex } from "./semantic/semantic-index.ts";
import { runInSlices } from "./steps.ts";

export interface CatalogSearchRequest {
  readonly query: string;
  /** Absent: by words, and by meaning too where an embedder is configured. */
  readonly type?: SearchType;
  readonly limit?: number;
  /** Only these are wanted; what it refuses still counts as there. */
  readonly accepts?: (action: Action) => boolean;
}

/** What a search found, and what it has to say about how it was found. */
export interface CatalogSearchResult {
  /** Best first. Empty when nothing fits. */
  readonly hits: readonly Hit[];
  readonly requested: SearchType;
  /** What was really done; `note` says why it is not what was asked for. */
  readonly effective: SearchType;
  /** The words of the query that nothing visible has. */
  readonly unmatched: readonly string[];
  readonly note?: string;
  /** Where nothing that is wanted fits: what fits and is not wanted. */
  readonly elsewhere?: readonly Hit[];
}

export interface CatalogSearchOptions {
  /** No answer has more hits, whatever is asked for. */
  readonly maxResults: number;
  /** Namespaces whose actions come first among equals, the most preferred first. */
  readonly preferredNamespaces: readonly string[];
  /** Absent: search by words alone, because that was chosen. */
  readonly semantic?: SemanticIndex | undefined;
  /** What to say where search by meaning is asked for and there is none. Absent: that nobody was chosen for it. */
  readonly withoutMeaning?: string;
  /** Told when the index of words was made for a catalog. */
  readonly onPrepared: (actions: number) => void;
}

/** Finds actions in a view. The one search behind every surface, hint and command. */
export type CatalogSearch = (
  view: Searchable,
  request: CatalogSearchRequest,
  signal?: AbortSignal,
) => Promise<CatalogSearchResult>;

const DEFAULT_LIMIT = 8;
/** A list to be fused needs more than will be shown: what is middling in both may be best in all. */
const FUSED_FROM = 50;
const UNMATCHED_SHOWN = 10;
const WORD_SHOWN = 40;

export function createCatalogSearch({
  maxResults,
  preferredNamespaces,
  semantic,
  withoutMeaning = "no embedder is configured.",
  onPrepared,
}: CatalogSearchOptions): CatalogSearch {
  const order = createHitOrder(preferredNamespaces);
  let current: { readonly snapshot: unknown; readonly index: Promise<LexicalIndex> } | undefined;
  let previous: LexicalIndex | undefined;

  /**
   * Made when the first search over a catalog is asked for, from what is left of the one before. A server may offer
   * megabytes of words, so others have their turn meanwhile.
   */
  function getIndex({ snapshot }: Searchable): Promise<LexicalIndex> {
    if (current?.snapshot !== snapshot) current = { snapshot, index: buildIndex(snapshot.actions) };
    return current.index;
  }

  async function buildIndex(actions: readonly Action[]): Promise<LexicalIndex> {
    const index = await runInSlices(lexicalIndexSteps(actions, previous));
    previous = index;
    onPrepared(actions.length);
    return index;
  }

  async function attempt(
    view: Searchable,
    request: Required<Omit<CatalogSearchRequest, "accepts">>,
    rest: AttemptContext,
  ) {
    const { query, type, limit } = request;
    const how = { limit, order, ...(rest.accepts === undefined ? {} : { accepts: rest.accepts }) };
    const byWords = async (many = limit) => (await getIndex(view)).search(query, view, { ...how, limit: many });
    switch (type) {
      case "exact":
        return toAttempt("exact", searchExact(query, view, how));
      case "regex": {
        const found = searchByPattern(query, view, how);
        if ("unreadable" in found) {
          return {
            ...toAttempt("fts", await byWords()),
            note: `The pattern ${found.unreadable}, so its words were searched.`,
          };
        }
        const cut = { note: "Not everything was looked at: the pattern asks for too much work." };
        return { ...toAttempt("regex", found.hits), ...(found.complete ? {} : cut) };
      }
      case "fts":
        return toAttempt("fts", await byWords());
      case "semantic":
      case "hybrid": {
        const signal = rest.signal === undefined ? {} : { signal: rest.signal };
        const meant = (await semantic?.search(query, view, {
          ...how,
          ...signal,
          limit: Math.max(limit, FUSED_FROM),
        })) ?? {
          unavailable: withoutMeaning,
        };
        if ("unavailable" in meant) {
          return { ...toAttempt("fts", await byWords()), note: `Searched by words only: ${meant.unavailable}` };
        }
        if (type === "semantic") return toAttempt("semantic", meant.hits.slice(0, limit));
        const worded = await byWords(Math.max(limit, FUSED_FROM));
        return {
          ...toAttempt("hybrid", fuseHits([worded.hits, meant.hits], { limit, order })),
          unmatched: worded.unmatched,
        };
      }
    }
  }

  return async (view, { query: asked, type, limit: wanted, accepts }, signal) => {
    const query = asked.trim();
    const requested = type ?? (semantic === undefined ? "fts" : "hybrid");
    // Names are found by name: no meaning may be mixed in, and no endpoint need hear of them.
    const chosen = isSelection(query) ? "fts" : requested;
    const limit = Math.max(1, Math.min(Math.trunc(wanted ?? DEFAULT_LIMIT), maxResults));
    if (query === "") return { hits: [], requested, effective: requested, unmatched: [] };
    const found = await attempt(view, { query, type: chosen, limit }, { accepts, signal });
    const shown = { ...found, requested, unmatched: clipWords(found.unmatched) };
    if (found.hits.length > 0 || accepts === undefined) return shown;
    const { hits: elsewhere } = await attempt(view, { query, type: chosen, limit }, { accepts: undefined, signal });
    return elsewhere.length === 0 ? shown : { ...shown, elsewhere };
  };
}

interface AttemptContext {
  readonly accepts: CatalogSearchRequest["accepts"] | undefined;
  readonly signal: AbortSignal | undefined;
}

type Attempt = Omit<CatalogSearchResult, "requested" | "elsewhere">;

function toAttempt(
  effective: SearchType,
  found: readonly Hit[] | { readonly hits: readonly Hit[]; readonly unmatched: readonly string[] },
): Attempt {
  return "hits" in found ? { ...found, effective } : { hits: found, unmatched: [], effective };
}

/** Words from outside, as they may be shown. */
function clipWords(words: readonly string[]): readonly string[] {
  return words.slice(0, UNMATCHED_SHOWN).map((word) => clip(word, WORD_SHOWN));
}
