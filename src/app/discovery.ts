import { createLoadingResolver } from "../activation/activation.ts";
import type { View } from "../catalog/view.ts";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { EVENT_NAMES_LIMIT, type UnstampedEvent } from "../core/events.ts";
import type { Runtime } from "../core/runtime.ts";
import type { SurfaceChoice } from "../core/surface-choice.ts";
import { type Directory, type DirectoryOptions, renderDirectory, renderHints } from "../search/directory.ts";
import { createEmbedder } from "../search/embedders/create-embedder.ts";
import type { ChosenEmbedder } from "../search/embedders/embedder.ts";
import type { Hit, Searchable } from "../search/hits.ts";
import { type CatalogSearchRequest, type CatalogSearchResult, createCatalogSearch } from "../search/search.ts";
import {
  type BuildOptions,
  type BuildReport,
  createSemanticIndex,
  type SemanticIndex,
  type SemanticIndexOptions,
  type SemanticStatus,
} from "../search/semantic/semantic-index.ts";
import { openSqliteStore, type Store } from "../store/open-store.ts";
import type { SearchSettings } from "./options.ts";
import { systemProcess } from "./system-runtime.ts";

/** Vectors of the catalog's actions, for search by meaning. */
export interface Embeddings {
  status(): SemanticStatus;
  /** Resolves when the store was looked through for vectors of the present catalog. */
  settled(): Promise<void>;
  /** Makes the vectors that are missing, now. Rejects with `embedder_failed`, or `search_off` where nobody makes any. */
  build(options?: BuildOptions): Promise<BuildReport>;
  /** Removes every vector from the index, of whatever catalog and model. */
  clear(): Promise<{ readonly rows: number }>;
}

/** Everything that finds actions, wired together. */
export interface Discovery {
  readonly isOn: boolean;
  /**
   * Searches what the view lets through, and leaves out of what was found what the view does not let through any more
   * when the search is over. Rejects with `search_off` where search is switched off.
   */
  find(viewNow: () => Searchable, request: CatalogSearchRequest, signal?: AbortSignal): Promise<CatalogSearchResult>;
  /** What `list_actions` says where search by meaning was not given up on purpose and is not there. */
  hint(): string | undefined;
  readonly embeddings: Embeddings;
  /** Who makes vectors and where they are kept, for whoever searches something else than actions. Absent: nobody. */
  readonly meaning?: EmbeddingSearchOptions;
  /** The catalog is another one now. */
  follow(): void;
  close(): Promise<void>;
}

export type EmbeddingSearchOptions = Pick<
  SemanticIndexOptions,
  "embedder" | "store" | "locks" | "runtime" | "self" | "queryLimitMs"
>;

interface DiscoveryOptions {
  readonly settings: SearchSettings;
  readonly runtime: Runtime;
  /** Where vectors are kept, unless they have a file of their own. */
  readonly store: Pick<Store, "vectors" | "locks">;
  readonly actions: () => readonly Action[];
  readonly note: (event: UnstampedEvent) => void;
}

export async function openDiscovery({
  settings,
  runtime,
  actions,
  note,
  ...parts
}: DiscoveryOptions): Promise<Discovery> {
  const { enabled = true, maxResults = 20, preferredNamespaces = [], index = {} } = settings;
  const wanted = enabled ? resolveEmbedder(settings.embedder) : undefined;
  const { ownStore, chosen } = await openOwnStore(wanted, index.path, runtime);
  const store = ownStore ?? parts.store;
  const meaning: EmbeddingSearchOptions | undefined =
    chosen === undefined || !("embedder" in chosen)
      ? undefined
      : {
          embedder: chosen.embedder,
          store: store.vectors,
          locks: store.locks,
          runtime,
          self: systemProcess,
          queryLimitMs: settings.embedderTimeoutMs ?? 1_500,
        };
  const semantic = meaning && createIndex(meaning);
  const search = createCatalogSearch({
    maxResults,
    preferredNamespaces,
    semantic,
    ...(chosen !== undefined && "unavailable" in chosen ? { withoutMeaning: "the embedder cannot be used." } : {}),
    onPrepared: (count) => note({ type: "search.prepared", data: { actions: count, semantic: status().state } }),
  });

  function createIndex(how: EmbeddingSearchOptions): SemanticIndex {
    return createSemanticIndex({
      ...how,
      incremental: index.incremental ?? true,
      rebuild: index.rebuild ?? false,
      background: index.background ?? true,
      onBuilt({ model, catalog, embedded, reused, durationMs }) {
        const names = embedded.slice(0, EVENT_NAMES_LIMIT);
        const data = { model, catalog, embedded: names, embeddedCount: embedded.length, reused, durationMs };
        note({ type: "embeddings.built", data });
      },
      onFailed: (reason) => note({ type: "embeddings.failed", data: { model: how.embedder.fingerprint, reason } }),
    });
  }

  function status(): SemanticStatus {
    if (semantic !== undefined) return semantic.status();
    const nothing = { done: 0, total: 0 };
    if (!enabled)
      return { state: "off", ...nothing, reason: "search is switched off", hint: "Set search.enabled: true." };
    if (chosen !== undefined && "unavailable" in chosen) {
      return { state: "failed", ...nothing, reason: chosen.unavailable, hint: chosen.hint };
    }
    return {
      state: "off",
      ...nothing,
      reason: "no embedder is configured",
      hint: "Set search.embedder.class; docs/guides/search-by-meaning.md says how.",
    };
  }

  return {
    isOn: enabled,
    async find(viewNow, request, signal) {
      if (!enabled) throw searchOffError();
      const view = viewNow();
      const found = await search(view, request, signal);
      return dropHiddenHits(found, view, viewNow());
    },
    hint() {
      const givenUp = settings.embedder === null || (chosen !== undefined && "off" in chosen);
      if (!enabled || givenUp || status().rows !== undefined) return undefined;
      return "Search goes by words only; an operator can see why with `qm embeddings status`.";
    },
    embeddings: {
      status,
      settled: async () => semantic?.settled(),
      async build(options) {
        if (semantic !== undefined) return semantic.build(actions(), options);
        const { reason = "", hint = "" } = status();
        throw new QmError("search_off", `no vectors can be made: ${reason}`, { hint });
      },
      async clear() {
        const { rows } = await (semantic ?? store.vectors).clear();
        note({ type: "embeddings.cleared", data: { rows } });
        return { rows };
      },
    },
    ...(meaning === undefined ? {} : { meaning }),
    follow: () => semantic?.follow(actions()),
    async close() {
      try {
        await semantic?.close();
      } finally {
        await ownStore?.close();
      }
    },
  };
}

/** Only who has an embedder looks for vectors; nobody else opens or makes a file for them. Without it, words are left. */
async function openOwnStore(
  chosen: ChosenEmbedder | undefined,
  path: string | undefined,
  { now }: Runtime,
): Promise<{ readonly chosen: ChosenEmbedder | undefined; readonly ownStore?: Store }> {
  if (path === undefined || chosen === undefined || !("embedder" in chosen)) return { chosen };
  try {
    return { chosen, ownStore: await openSqliteStore(path, { now }) };
  } catch (thrown) {
    await chosen.embedder.close?.();
    return {
      chosen: {
        unavailable: `search.index.path: ${getErrorMessage(thrown)}`,
        hint: "Mend search.index.path, or leave it out.",
      },
    };
  }
}

/** A search may wait for an embedder, and what was revoked meanwhile must not be in its answer. */
function dropHiddenHits(found: CatalogSearchResult, before: Searchable, now: Searchable): CatalogSearchResult {
  if (now === before) return found;
  const there = now.snapshot === before.snapshot ? undefined : new Set(now.snapshot.actions);
  const isVisible = ({ action }: Hit): boolean => there?.has(action) !== false && now.sees(action);
  const { hits, elsewhere, ...rest } = found;
  return {
    ...rest,
    hits: hits.filter(isVisible),
    ...(elsewhere === undefined ? {} : { elsewhere: elsewhere.filter(isVisible) }),
  };
}

function resolveEmbedder(choice: SearchSettings["embedder"]): ChosenEmbedder | undefined {
  if (choice === undefined || choice === null) return undefined;
  return "embed" in choice ? { embedder: choice } : createEmbedder(choice);
}

function searchOffError(): QmError {
  return new QmError("search_off", "search is switched off here", {
    hint: "Browse with list_actions. An operator can set search.enabled: true.",
  });
}

/** Blocks of a prompt that help a model find what it needs. */
interface PromptAids {
  hints(query: string, caller: Caller): Promise<string>;
  directory(caller: Caller): Directory;
  /** Those that are switched on, the steadier one first. */
  blocks(query: string, caller: Caller): Promise<string>;
}

interface PromptAidOptions {
  readonly settings: SearchSettings;
  viewOf(caller: Caller): View;
  readonly discovery: Pick<Discovery, "find" | "isOn">;
  surfaceOf(caller: Caller): SurfaceChoice;
  record(caller: Caller, event: UnstampedEvent): void;
}

const DIRECTORY_DEFAULTS: DirectoryOptions = {
  maxGroups: 20,
  maxActionsPerGroup: 6,
  showCounts: true,
  defaultGroups: true,
  groups: [],
};
const TOP_K = 5;

export function createPromptAids({ settings, viewOf, discovery, surfaceOf, record }: PromptAidOptions): PromptAids {
  const {
    enabled: hintsOn = false,
    topK = TOP_K,
    searchType: type,
    includeAlwaysLoaded = false,
  } = settings.hints ?? {};
  const { enabled: directoryOn = false, ...directory } = settings.directory ?? {};

  const aids: PromptAids = {
    async hints(query, caller) {
      const surface = surfaceOf(caller);
      const loadingOf = createLoadingResolver(surface);
      const found = await discovery.find(() => viewOf(caller), {
        query,
        limit: topK,
        ...(type === undefined ? {} : { type }),
        ...(surface.kind !== "deferred" || includeAlwaysLoaded
          ? {}
          : { accepts: (action) => loadingOf(action) === "deferred" }),
      });
      const { requested, effective } = found;
      const data = { query, requested, effective, actions: found.hits.map(({ action }) => action.name) };
      record(caller, { type: "hints.rendered", data });
      return renderHints(query, found);
    },
    directory(caller) {
      const rendered = renderDirectory(viewOf(caller).actions(), { ...DIRECTORY_DEFAULTS, ...directory });
      record(caller, { type: "directory.rendered", data: { groups: [...rendered.groups], actions: rendered.actions } });
      return rendered;
    },
    async blocks(query, caller) {
      const hinting = hintsOn && discovery.isOn;
      const all = [directoryOn ? aids.directory(caller).text : "", hinting ? await aids.hints(query, caller) : ""];
      return all.filter((block) => block !== "").join("\n\n");
    },
  };
  return aids;
}
