import { raceAbort, withTimeout } from "../../core/async.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { clip, omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { findNearest } from "../../core/nearest.ts";
import { type Fetch, requireSafeUrl } from "./fetch-document.ts";
import { type IndexedServer, indexServerWords, type RankedServer, rankServers } from "./rank-servers.ts";
import type { RegistryStore, RegistrySyncState } from "./registry-store.ts";
import { createRegistryApi, syncRegistry } from "./registry-sync.ts";
import { parseRegistryEntry, type RegistryEntry } from "./server-json.ts";

/** Work that several callers share. It is aborted when the last caller stops waiting. */
export function createSharedWork<T>(work: (signal: AbortSignal) => Promise<T>): (signal?: AbortSignal) => Promise<T> {
  let running: { readonly done: Promise<T>; readonly controller: AbortController; waiting: number } | undefined;
  return async (signal) => {
    signal?.throwIfAborted();
    const current = running ?? begin();
    current.waiting += 1;
    try {
      return await raceAbort(current.done, signal);
    } finally {
      current.waiting -= 1;
      if (current.waiting === 0) {
        current.controller.abort();
        if (running === current) running = undefined;
      }
    }
  };

  function begin() {
    const controller = new AbortController();
    const done = work(controller.signal);
    // After all callers have left, ignore how the work ends.
    done.catch(() => undefined);
    running = { done, controller, waiting: 0 };
    return running;
  }
}

export interface ServerRegistryOptions {
  readonly url: string;
  readonly fetch: Fetch;
  readonly store: RegistryStore;
  readonly now: () => Date;
  /** The time limit of one response. */
  readonly timeoutMs?: number;
  /** The time limit of a sync. Pages that arrived are kept. */
  readonly syncTimeoutMs?: number;
}

/** Plain JSON, so that an action can return it. Texts come from the publisher, each on one line. */
interface RegistrySearchResult {
  readonly servers: readonly ReturnType<typeof toSearchHit>[];
  /** The number of results without the limit. */
  readonly total: number;
  /** When the copy was last complete. */
  readonly syncedAt?: string;
  /** Why the result may be outdated or incomplete. */
  readonly note?: string;
}

type SearchOptions = { readonly limit: number; readonly offset?: number; readonly signal?: AbortSignal | undefined };
type GetOptions = { readonly version?: string | undefined; readonly signal?: AbortSignal | undefined };

interface RegistryEntryResult extends RegistryEntry {
  /** The URL of the registry. */
  readonly registry: string;
  /** Set if the registry could not be reached and the copy was used. */
  readonly note?: string;
}

/** An MCP registry with a searchable local copy. */
export interface ServerRegistry {
  readonly url: string;
  /**
   * Searches names, titles and descriptions of active servers. Updates a copy older than an hour first. If that fails,
   * the old copy is searched and `note` says how old it is. Throws `registry_failed` without a copy.
   */
  search(text: string, options: SearchOptions): Promise<RegistrySearchResult>;
  /** One version, default `latest`, from the registry itself. Throws `not_found`, also for a deleted server. */
  get(name: string, options?: GetOptions): Promise<RegistryEntryResult>;
}

const FRESH_MS = 60 * 60 * 1000;
const RETRY_MS = 60 * 1000;

export function createServerRegistry(options: ServerRegistryOptions): ServerRegistry {
  const { fetch, store, now, timeoutMs = 15_000, syncTimeoutMs: ms = 60_000 } = options;
  const base = requireSafeUrl(options.url, "mcp.registry");
  const registry = base.href.replace(/\/+$/, "");
  const api = createRegistryApi(base, fetch, timeoutMs);
  const sync = createSharedWork((signal) =>
    withTimeout({ ms, signal, timeoutError }, (inner) => syncRegistry({ registry, api, store, now }, inner)),
  );
  let failure: { readonly at: number; readonly thrown: unknown } | undefined;
  let index: { readonly of: string; readonly servers: readonly IndexedServer[] } | undefined;

  return {
    url: registry,
    async search(text, { limit, offset = 0, signal }) {
      const problem = await refreshCopy(signal);
      const mark = await store.getSyncState(registry);
      const servers = await loadIndex(mark);
      if (problem !== undefined && servers.length === 0) throw problem;
      const ranked = rankServers(servers, clip(text, 1000));
      const note = describeStaleness(mark, problem, now());
      const hits = ranked.slice(offset, offset + limit).map(toSearchHit);
      return omitUndefined({ servers: hits, total: ranked.length, syncedAt: mark?.syncedAt?.toISOString(), note });
    },
    async get(name, { version = "latest", signal } = {}) {
      const live = await api.version(name, version, signal).catch((thrown: unknown) => {
        if (signal?.aborted || !(thrown instanceof QmError)) throw thrown;
        return thrown;
      });
      if (live instanceof QmError) return readFromCopy(name, version, live);
      if (live === undefined) throw await notFound(name, version);
      if (live.status === "deleted") throw createDeletedError(live);
      return { ...live, registry };
    },
  };

  function timeoutError(): QmError {
    const hint = "The part that arrived is kept. Search again to continue.";
    return new QmError("registry_failed", `the registry's list did not arrive within ${ms / 1000} s`, { hint });
  }

  async function refreshCopy(signal: AbortSignal | undefined): Promise<unknown> {
    const mark = await store.getSyncState(registry);
    const age = mark?.syncedAt === undefined ? Number.POSITIVE_INFINITY : now().getTime() - mark.syncedAt.getTime();
    if (age >= 0 && age < FRESH_MS) return undefined;
    // Do not wait repeatedly for a registry that is down while a copy exists.
    if (failure !== undefined && now().getTime() - failure.at < RETRY_MS && mark?.syncedAt !== undefined)
      return failure.thrown;
    try {
      await sync(signal);
      failure = undefined;
      return undefined;
    } catch (thrown) {
      signal?.throwIfAborted();
      failure = { at: now().getTime(), thrown };
      return thrown;
    }
  }

  async function loadIndex(mark: RegistrySyncState | undefined): Promise<readonly IndexedServer[]> {
    const of = JSON.stringify([mark?.syncedAt, mark?.cursor]);
    if (index?.of === of) return index.servers;
    const lines = await store.listServers(registry);
    const servers = lines.filter(({ status }) => status === "active").map(indexServerWords);
    index = { of, servers };
    return servers;
  }

  async function readFromCopy(name: string, version: string, problem: QmError): Promise<RegistryEntryResult> {
    const kept = await store.find(registry, name);
    const parsed = kept === undefined ? undefined : parseRegistryEntry(kept.entry);
    const fits = version === "latest" || kept?.version === version;
    if (!parsed?.ok || !fits) throw problem;
    const note = describeStaleness(await store.getSyncState(registry), problem, now());
    return omitUndefined({ ...parsed.entry, registry, note });
  }

  async function notFound(name: string, version: string): Promise<QmError> {
    const lines = await store.listServers(registry);
    const known = lines.find((line) => line.name === name);
    if (known !== undefined && version !== "latest") {
      const hint = `The latest version is ${quoteName(known.version)}: omit the version to use it.`;
      return new QmError("not_found", `the registry has no version ${quoteName(version)} of ${name}`, { hint });
    }
    const names = lines.filter(({ status }) => status === "active").map((line) => line.name);
    const near = findNearest(name, names) ?? names.find((one) => one.toLowerCase().endsWith(`/${name.toLowerCase()}`));
    const options =
      near === undefined
        ? { hint: "Search the registry, or use its package." }
        : { hint: `Did you mean ${near}?`, details: { suggestions: [near] } };
    return new QmError("not_found", `the registry has no server ${quoteName(name)}`, options);
  }
}

function createDeletedError({ server, statusMessage }: RegistryEntry): QmError {
  const why = statusMessage === undefined ? "" : `: ${quoteName(statusMessage)}`;
  const hint = "Choose another server: deleted ones are often broken or unsafe.";
  return new QmError("not_found", `${quoteName(server.name)} was deleted from the registry${why}`, { hint });
}

function toSearchHit({ server: { name, version, title, description }, score }: RankedServer) {
  return { name, version, ...(title === "" ? {} : { title }), description, score };
}

function describeStaleness(mark: RegistrySyncState | undefined, problem: unknown, now: Date): string | undefined {
  if (problem === undefined) return undefined;
  const why = problem instanceof QmError ? problem.message : getErrorMessage(problem);
  const age = mark?.syncedAt && formatAge(now.getTime() - mark.syncedAt.getTime());
  return `This is from ${age === undefined ? "an incomplete copy" : `a copy that is ${age} old`}: ${why}.`;
}

function formatAge(ms: number): string {
  const minutes = Math.max(0, Math.round(ms / 60_000));
  if (minutes < 120) return `${minutes} min`;
  return minutes < 48 * 60 ? `${Math.round(minutes / 60)} h` : `${Math.round(minutes / 60 / 24)} days`;
}
