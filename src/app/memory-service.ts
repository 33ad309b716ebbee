import type { Provider } from "../catalog/define-action.ts";
import type { LiveResources } from "../catalog/snapshot.ts";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { canonicalJson } from "../core/json.ts";
import type { ResourceAccess } from "../core/resource-access.ts";
import type { Runtime } from "../core/runtime.ts";
import type { DocumentSource } from "../infospace/search/documents.ts";
import { createNoteVectorIndex } from "../infospace/search/note-vectors.ts";
import { createIndexCache, createPassageIndex, type PassageIndex } from "../infospace/search/passage-index.ts";
import type { MemoryParts } from "../providers/memory/memory-action.ts";
import type { MemoryScope } from "../providers/memory/memory-entry.ts";
import { createMemoryProviders, createMemoryResources } from "../providers/memory/memory-provider.ts";
import type { MemoryStore } from "../providers/memory/memory-store.ts";
import { memoryLimits } from "../providers/memory/memory-text.ts";
import type { EmbeddingSearchOptions } from "./discovery.ts";
import { createTextChecks, type SecretMasker } from "./text-checks.ts";

/** Entries that actors remember across sessions. */
export interface MemoryService {
  readonly providers: readonly Provider[];
  readonly live: LiveResources;
  close(): Promise<void>;
}

const LIMITS = { documents: 2 * memoryLimits.entries, characters: 2 * memoryLimits.entries * memoryLimits.body };
const CACHED_CHARACTERS = 64_000_000;

export function createMemoryService(options: {
  readonly store: MemoryStore;
  readonly runtime: Runtime;
  /** Absent: entries are searched by words only. */
  readonly meaning?: EmbeddingSearchOptions | undefined;
  access(entry: Action, caller: Caller): ResourceAccess;
  readonly mask: SecretMasker;
}): MemoryService {
  const { store, runtime, meaning, access, mask } = options;
  const indexes = createIndexCache<PassageIndex>(CACHED_CHARACTERS);
  const closing = new AbortController();
  const parts: MemoryParts = {
    store,
    now: runtime.now,
    access,
    async search(scopes, { query, hidden, limit, signal }) {
      const source = createMemorySource(store, scopes, new Set(hidden));
      const create = () => createPassageIndex(source, LIMITS, meaning && createNoteVectorIndex(meaning));
      const index = await indexes.open(canonicalJson([scopes, hidden]), undefined, create);
      const type = meaning === undefined ? "keyword" : "hybrid";
      const found = await index.search({ query, type, limit, signal: AbortSignal.any([closing.signal, signal]) });
      const note = found.notes.join(" ");
      return { ids: found.ranked.map(({ id }) => id), ...(note === "" ? {} : { note }) };
    },
    ...createTextChecks(mask),
  };
  return {
    providers: createMemoryProviders(parts),
    live: createMemoryResources(parts),
    async close() {
      closing.abort();
      await Promise.all(indexes.all().map((index) => index.close()));
    },
  };
}

/** The entries of some scopes, without hidden ones, as documents for the search over notes. */
const createMemorySource = (
  store: MemoryStore,
  scopes: readonly MemoryScope[],
  hidden: ReadonlySet<number>,
): DocumentSource => ({
  kind: "note",
  async marks() {
    const entries = (await Promise.all(scopes.map((scope) => store.list(scope)))).flat();
    // An id may be used again after the newest version was removed.
    return new Map(
      entries
        .filter(({ id }) => !hidden.has(id))
        .map(({ id, slug, version, changedAt }) => [id, `${slug} ${version} ${changedAt.getTime()}`]),
    );
  },
  async read(ids) {
    return (await store.read(ids)).map(({ id, slug, name, description, type, body, version, changedAt }) => ({
      id,
      hash: `${slug} ${version} ${changedAt.getTime()}`,
      name,
      labels: [type],
      text: `${slug}\n${name}\n${description}\n${body}`,
      whole: true,
    }));
  },
});
