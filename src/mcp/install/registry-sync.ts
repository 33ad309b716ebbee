import { toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { canonicalJson, clip, isRecord } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import {
  appendUrlPath,
  createStatusError,
  type Fetch,
  fetchDocument,
  parseJsonDocument,
  readErrorMessage,
} from "./fetch-document.ts";
import type { RegistryStore, RegistrySyncState, StoredServer } from "./registry-store.ts";
import { parseRegistryEntry, type RegistryEntry } from "./server-json.ts";

type RegistryApiPage = { readonly entries: readonly RegistryEntry[]; readonly nextCursor?: string };

type RegistryPageQuery = { readonly cursor?: string | undefined; readonly updatedSince?: string | undefined };

/** The registry API. Every failure is `registry_failed`. */
interface RegistryApi {
  /** The latest versions of all servers, by page. With `updatedSince` the page includes deleted ones. */
  page(query: RegistryPageQuery, signal: AbortSignal): Promise<RegistryApiPage>;
  /** Undefined if the server or version does not exist. */
  version(name: string, version: string, signal?: AbortSignal): Promise<RegistryEntry | undefined>;
}

const PAGE_SIZE = 100;

export function createRegistryApi(base: URL, fetch: Fetch, timeoutMs: number): RegistryApi {
  const limits = { fetch, timeoutMs, what: "the registry", bytes: 16 * 2 ** 20, redirects: "same-origin" } as const;
  return {
    async page({ cursor, updatedSince }, signal) {
      const url = appendUrlPath(base, "v0.1/servers");
      url.searchParams.set("limit", String(PAGE_SIZE));
      url.searchParams.set("version", "latest");
      if (updatedSince !== undefined) url.searchParams.set("updated_since", updatedSince);
      if (cursor !== undefined) url.searchParams.set("cursor", cursor);
      const answer = await fetchDocument(url, limits, signal);
      if (answer.status !== 200) throw createStatusError(url, limits, answer);
      return parsePage(url, parseJsonDocument(url, limits, answer));
    },
    async version(name, version, signal) {
      const [server, wanted] = [encodeURIComponent(name), encodeURIComponent(version)];
      const url = appendUrlPath(base, `v0.1/servers/${server}/versions/${wanted}`);
      const answer = await fetchDocument(url, limits, signal);
      // A server without this path answers 404, too, but without the error body of a registry.
      if (answer.status === 404 && readErrorMessage(answer) !== undefined) return undefined;
      if (answer.status !== 200) throw createStatusError(url, limits, answer);
      const parsed = parseRegistryEntry(parseJsonDocument(url, limits, answer));
      if (parsed.ok) return parsed.entry;
      const hint = `The publisher must fix it: ${parsed.problem}. Use the server's package or command instead.`;
      throw new QmError("registry_failed", `the registry's entry for ${quoteName(name)} cannot be read`, { hint });
    },
  };
}

function parsePage(url: URL, body: unknown): RegistryApiPage {
  if (!isRecord(body) || !Array.isArray(body.servers)) {
    const hint = "Check that the URL is that of an MCP registry.";
    throw new QmError("registry_failed", `the answer of ${url.origin} is not a list of MCP servers`, { hint });
  }
  const entries = body.servers.slice(0, PAGE_SIZE * 10).flatMap((one) => {
    const parsed = parseRegistryEntry(one);
    return parsed.ok ? [parsed.entry] : [];
  });
  const metadata = isRecord(body.metadata) ? body.metadata : {};
  const nextCursor = metadata.nextCursor ?? metadata.next_cursor;
  const goesOn = typeof nextCursor === "string" && nextCursor !== "";
  return { entries, ...(goesOn ? { nextCursor } : {}) };
}

/** How often to run a full sync, which finds servers that disappeared silently. */
const FULL_EVERY_MS = 7 * 24 * 60 * 60 * 1000;
/** An overlap for clock differences and late writes of the registry. */
const OVERLAP_MS = 10 * 60 * 1000;
const PAGE_CAP = 1000;
const ENTRY_CHARS = 256 * 1024;

type RegistrySyncOptions = { registry: string; api: RegistryApi; store: RegistryStore; now: () => Date };

/**
 * Updates the copy of a registry: everything at first and once a week, otherwise only changes. Each page is stored as
 * it arrives, so that an interrupted first sync continues.
 */
export async function syncRegistry(options: RegistrySyncOptions, signal: AbortSignal): Promise<void> {
  const { registry, api, store, now } = options;
  const mark = (await store.getSyncState(registry)) ?? {};
  const startedAt = now();
  const isFull = mark.fullAt === undefined || startedAt.getTime() - mark.fullAt.getTime() > FULL_EVERY_MS;
  const updatedSince = isFull ? undefined : mark.updatedSince;
  let cursor = isFull ? mark.cursor : undefined;
  const isWhole = cursor === undefined;
  // Changes during this sync belong to the next one, even after several attempts.
  const from = new Date(startedAt.getTime() - OVERLAP_MS).toISOString();
  let newest = mark.updatedSince;
  for (let pages = 0; pages < PAGE_CAP; pages++) {
    const page = await api.page({ cursor, updatedSince }, signal).catch(async (thrown: unknown) => {
      // A cursor that the registry no longer knows would break every later sync.
      const { cursor: old, ...rest } = mark;
      if (pages === 0 && !signal.aborted && old !== undefined)
        await store.write(registry, { seenAt: startedAt, servers: [], gone: [], mark: rest });
      throw thrown;
    });
    if (page.nextCursor !== undefined && page.nextCursor === cursor) throw createEndlessError(registry);
    cursor = page.nextCursor;
    newest = findLatest([newest, ...page.entries.map((entry) => entry.updatedAt)]);
    const isLast = cursor === undefined;
    await store.write(registry, {
      seenAt: startedAt,
      ...toStoredServers(page.entries),
      mark:
        cursor === undefined
          ? finishSyncState()
          : { ...mark, ...(isFull ? { cursor, updatedSince: mark.updatedSince ?? from } : {}) },
      // A resumed sync has not seen the pages before its cursor, so it must not delete them.
      ...(isLast && isFull && isWhole ? { forgetBefore: startedAt } : {}),
    });
    if (isLast) return;
  }
  throw createEndlessError(registry);

  function finishSyncState(): RegistrySyncState {
    const fullAt = isFull ? startedAt : mark.fullAt;
    return {
      syncedAt: startedAt,
      ...(fullAt === undefined ? {} : { fullAt }),
      updatedSince: isWhole ? computeSince(newest, startedAt) : (mark.updatedSince ?? from),
    };
  }
}

/** A little before the newest change, by the registry's clock if possible. */
function computeSince(newest: string | undefined, startedAt: Date): string {
  const time = newest === undefined ? startedAt.getTime() : Math.min(Date.parse(newest), startedAt.getTime());
  return new Date(time - OVERLAP_MS).toISOString();
}

function toStoredServers(entries: readonly RegistryEntry[]) {
  const servers = new Map<string, StoredServer>();
  const gone = new Set<string>();
  for (const { server, status, raw } of entries) {
    if (canonicalJson(raw).length > ENTRY_CHARS) continue;
    servers.delete(server.name);
    gone.delete(server.name);
    if (status === "deleted") {
      gone.add(server.name);
      continue;
    }
    const title = clip(toOneLine(server.title ?? ""), 200);
    const description = clip(toOneLine(server.description), 1000);
    const { name, version } = server;
    servers.set(name, { name, version, status, title, description, entry: raw });
  }
  return { servers: [...servers.values()], gone: [...gone] };
}

function findLatest(times: readonly (string | undefined)[]): string | undefined {
  const known = times.filter((time) => time !== undefined).filter((time) => !Number.isNaN(Date.parse(time)));
  return known.sort((a, b) => Date.parse(b) - Date.parse(a))[0];
}

function createEndlessError(registry: string): QmError {
  const hint = "The part that was read can be searched. Report this to the operator of the registry.";
  return new QmError("registry_failed", `the list of the registry at ${registry} does not end`, { hint });
}
