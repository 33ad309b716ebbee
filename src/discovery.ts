import type { Action } from "./core/action.ts";
import { messageOf, QmError } from "./core/errors.ts";
import { NAMES_NOTED, type UnstampedEvent } from "./core/events.ts";
import type { Runtime } from "./core/runtime.ts";
import type { SearchSettings } from "./options.ts";
import { createEmbedder } from "./search/embedders/create.ts";
import type { ChosenEmbedder } from "./search/embedders/embedder.ts";
import type { Hit } from "./search/hit.ts";
import { createSearch, type Found, type SearchRequest } from "./search/search.ts";
import type { Searchable } from "./search/searchable.ts";
import {
  type BuildOptions,
  type BuildReport,
  createSemanticIndex,
  type SemanticIndex,
  type SemanticIndexOptions,
  type SemanticStatus,
} from "./search/semantic/semantic-index.ts";
import { openSqliteStore, type Store } from "./store/open.ts";
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
  find(viewNow: () => Searchable, request: SearchRequest, signal?: AbortSignal): Promise<Found>;
  /** What `list_actions` says where search by meaning was not given up on purpose and is not there. */
  hint(): string | undefined;
  readonly embeddings: Embeddings;
  /** Who makes vectors and where they are kept, for whoever searches something else than actions. Absent: nobody. */
  readonly meaning?: Meaning;
  /** The catalog is another one now. */
  follow(): void;
  close(): Promise<void>;
}

export type Meaning = Pick<SemanticIndexOptions, "embedder" | "store" | "locks" | "runtime" | "self" | "queryLimitMs">;

export interface DiscoveryParts {
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
}: DiscoveryParts): Promise<Discovery> {
  const { enabled = true, maxResults = 20, preferredNamespaces = [], index = {} } = settings;
  const wanted = enabled ? chosenEmbedder(settings.embedder) : undefined;
  const { ownStore, chosen } = await withOwnStore(wanted, index.path, runtime);
  const store = ownStore ?? parts.store;
  const meaning: Meaning | undefined =
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
  const semantic = meaning && semanticIndex(meaning);
  const search = createSearch({
    maxResults,
    preferredNamespaces,
    semantic,
    ...(chosen !== undefined && "unavailable" in chosen ? { withoutMeaning: "the embedder cannot be used." } : {}),
    onPrepared: (count) => note({ type: "search.prepared", data: { actions: count, semantic: status().state } }),
  });

  function semanticIndex(how: Meaning): SemanticIndex {
    return createSemanticIndex({
      ...how,
      incremental: index.incremental ?? true,
      rebuild: index.rebuild ?? false,
      background: index.background ?? true,
      onBuilt({ model, catalog, embedded, reused, durationMs }) {
        const names = embedded.slice(0, NAMES_NOTED);
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
      if (!enabled) throw searchOff();
      const view = viewNow();
      const found = await search(view, request, signal);
      return stillSeen(found, view, viewNow());
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
async function withOwnStore(
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
        unavailable: `search.index.path: ${messageOf(thrown)}`,
        hint: "Mend search.index.path, or leave it out.",
      },
    };
  }
}

/** A search may wait for an embedder, and what was revoked meanwhile must not be in its answer. */
function stillSeen(found: Found, before: Searchable, now: Searchable): Found {
  if (now === before) return found;
  const there = now.snapshot === before.snapshot ? undefined : new Set(now.snapshot.actions);
  const seen = ({ action }: Hit): boolean => there?.has(action) !== false && now.sees(action);
  const { hits, elsewhere, ...rest } = found;
  return {
    ...rest,
    hits: hits.filter(seen),
    ...(elsewhere === undefined ? {} : { elsewhere: elsewhere.filter(seen) }),
  };
}

function chosenEmbedder(choice: SearchSettings["embedder"]): ChosenEmbedder | undefined {
  if (choice === undefined || choice === null) return undefined;
  return "embed" in choice ? { embedder: choice } : createEmbedder(choice);
}

function searchOff(): QmError {
  return new QmError("search_off", "search is switched off here", {
    hint: "Browse with list_actions. An operator can set search.enabled: true.",
  });
}
