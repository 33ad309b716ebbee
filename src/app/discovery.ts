import { type Abortable, toAbortSignal } from "../core/abortable.ts";
import type { Action } from "../core/action.ts";
import { settlesWithin } from "../core/async.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { EVENT_NAMES_LIMIT, type UnstampedEvent } from "../core/events.ts";
import { omitUndefined } from "../core/json.ts";
import type { Runtime } from "../core/runtime.ts";
import { INFOSPACE } from "../infospace/resource-access.ts";
import type { ChosenEmbedder } from "../search/embedders/embedder.ts";
import type { Hit, Searchable } from "../search/hits.ts";
import { type CatalogSearchRequest, type CatalogSearchResult, createCatalogSearch } from "../search/search.ts";
import type {
  BuildOptions,
  BuildReport,
  SemanticIndex,
  SemanticIndexOptions,
  SemanticStatus,
} from "../search/semantic/semantic-index.ts";
import { openSqliteStore, type Store } from "../store/open-store.ts";
import type { ResolvedOptions } from "./options.ts";
import { systemProcess } from "./system-runtime.ts";

type SearchOptions = ResolvedOptions["search"];

export interface Embeddings {
  status(): SemanticStatus;
  /** Resolves when the vectors of the present catalog have been read from the store. */
  settled(): Promise<void>;
  /** Makes the missing vectors now. Rejects with `embedder_failed`, or with `search_off` if there is no embedder. */
  build(options?: BuildOptions): Promise<BuildReport>;
  /** Removes all vectors from the index, also those of other catalogs and models. */
  clear(): Promise<{ readonly rows: number }>;
}

export interface Discovery {
  readonly isOn: boolean;
  /** Drops hits that the view no longer has when the search ends. Rejects with `search_off` if disabled. */
  find(viewNow: () => Searchable, request: CatalogSearchRequest, signal?: Abortable): Promise<CatalogSearchResult>;
  /**
   * A remark for `list_actions` if an embedder is configured and search by meaning does not work. Complete once
   * `embeddings.settled()` has resolved; before, vectors may be in the store that are not read yet.
   */
  hint(): string | undefined;
  /** The hint once it is complete. Waits as long as a search waits for its vectors. */
  waitForHint(): Promise<string | undefined>;
  readonly embeddings: Embeddings;
  readonly meaning?: EmbeddingSearchOptions;
  follow(): void;
  close(): Promise<void>;
}

type SharedKeys = "embedder" | "store" | "locks" | "runtime" | "self" | "queryLimitMs";
export type EmbeddingSearchOptions = Pick<SemanticIndexOptions, SharedKeys>;

/** `store` is for vectors, unless they have a file of their own. */
export async function openDiscovery(options: {
  readonly settings: SearchOptions;
  readonly runtime: Runtime;
  readonly store: Pick<Store, "vectors" | "locks">;
  readonly actions: () => readonly Action[];
  readonly note: (event: UnstampedEvent) => void;
}): Promise<Discovery> {
  const { settings, runtime, actions, note } = options;
  const { enabled, maxResults, preferredNamespaces, index } = settings;
  const wanted = enabled ? await resolveEmbedder(settings.embedder) : undefined;
  const { ownStore, chosen } = await openOwnStore(wanted, index.path, runtime);
  const store = ownStore ?? options.store;
  const embedder = chosen && "embedder" in chosen ? chosen.embedder : undefined;
  const unavailable = chosen && "unavailable" in chosen ? chosen : undefined;
  const { vectors, locks } = store;
  const queryLimitMs = settings.embedderTimeoutMs;
  const meaning = embedder && { embedder, store: vectors, locks, runtime, self: systemProcess, queryLimitMs };
  const semantic = meaning && (await createIndex(meaning));
  const search = createCatalogSearch({
    maxResults,
    preferredNamespaces,
    notesCategory: INFOSPACE,
    semantic,
    ...(unavailable && { withoutMeaning: "the embedder cannot be used." }),
    onPrepared(count) {
      const { state, rows = 0, embedded = 0 } = status();
      const counts = semantic === undefined ? {} : { embeddedCount: embedded, reused: rows - embedded };
      note({ type: "search.prepared", data: { actions: count, semantic: state, ...counts } });
    },
  });

  async function createIndex(base: EmbeddingSearchOptions): Promise<SemanticIndex> {
    const { createSemanticIndex } = await import("../search/semantic/semantic-index.ts");
    const { incremental, rebuild, background } = index;
    return createSemanticIndex({
      ...base,
      incremental,
      rebuild,
      background,
      onBuilt({ model, catalog, embedded, reused, durationMs }) {
        const names = embedded.slice(0, EVENT_NAMES_LIMIT);
        const data = { model, catalog, embedded: names, embeddedCount: embedded.length, reused, durationMs };
        note({ type: "embeddings.built", data });
      },
      onFailed: (reason) => note({ type: "embeddings.failed", data: { model: base.embedder.fingerprint, reason } }),
    });
  }

  function status(): SemanticStatus {
    if (semantic !== undefined) return semantic.status();
    const nothing = { done: 0, total: 0 };
    if (!enabled)
      return { state: "off", ...nothing, reason: "search is switched off", hint: "Set search.enabled: true." };
    if (unavailable) return { state: "failed", ...nothing, reason: unavailable.unavailable, hint: unavailable.hint };
    const hint = "Set search.embedder.class; docs/guides/search-by-meaning.md says how.";
    return { state: "off", ...nothing, reason: "no embedder is configured", hint };
  }

  function hint(): string | undefined {
    const isConfigured = chosen !== undefined && !("off" in chosen);
    if (!enabled || !isConfigured || status().rows !== undefined) return undefined;
    return "Search goes by words only; an operator can see why.";
  }

  return {
    isOn: enabled,
    async find(viewNow, request, signal) {
      const hint = "Browse with {list}. An operator can set search.enabled: true.";
      if (!enabled) throw new QmError("search_off", "search is switched off", { hint });
      const view = viewNow();
      const found = await search(view, request, signal && toAbortSignal(signal));
      return dropHiddenHits(found, view, viewNow());
    },
    hint,
    async waitForHint() {
      if (semantic !== undefined) await settlesWithin(semantic.settled(), queryLimitMs);
      return hint();
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
        const { rows } = await (semantic ?? vectors).clear();
        note({ type: "embeddings.cleared", data: { rows } });
        return { rows };
      },
    },
    ...(meaning && { meaning }),
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

/** Opens the file of the vectors, if there is an embedder to use it. If that fails, search goes by words. */
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
    const unavailable = `search.index.path: ${getErrorMessage(thrown)}`;
    return { chosen: { unavailable, hint: "Fix search.index.path, or leave it out." } };
  }
}

/** A search may wait for the embedder. An action that was revoked meanwhile must not be in the answer. */
function dropHiddenHits(found: CatalogSearchResult, before: Searchable, now: Searchable): CatalogSearchResult {
  if (now === before) return found;
  const remaining = now.snapshot === before.snapshot ? undefined : new Set(now.snapshot.actions);
  const isVisible = ({ action }: Hit): boolean => remaining?.has(action) !== false && now.sees(action);
  const { hits, elsewhere, ...rest } = found;
  return omitUndefined({ ...rest, hits: hits.filter(isVisible), elsewhere: elsewhere?.filter(isVisible) });
}

async function resolveEmbedder(choice: SearchOptions["embedder"]): Promise<ChosenEmbedder | undefined> {
  if (choice === undefined || choice === null) return undefined;
  if ("embed" in choice) return { embedder: choice };
  return (await import("../search/embedders/create-embedder.ts")).createEmbedder(choice);
}
