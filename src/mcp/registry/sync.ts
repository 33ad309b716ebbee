import { QmError } from "../../core/errors.ts";
import { canonicalJson, clip } from "../../core/json.ts";
import { oneLine } from "../../core/plain-text.ts";
import type { RegistryApi } from "./registry-api.ts";
import type { RegistryEntry } from "./registry-entry.ts";
import type { KeptServer, RegistryMark, RegistryStore } from "./registry-store.ts";

const HOUR_MS = 60 * 60 * 1000;
/** What was withdrawn without a word is noticed after so long. */
const FULL_EVERY_MS = 7 * 24 * HOUR_MS;
/** Clocks differ, and a registry may write down a change a little later than it dates it. */
const OVERLAP_MS = 10 * 60 * 1000;
const PAGE_CAP = 1000;
const ENTRY_CHARS = 256 * 1024;

export interface Syncing {
  readonly registry: string;
  readonly api: RegistryApi;
  readonly store: RegistryStore;
  readonly now: () => Date;
}

/**
 * Brings the copy of a registry up to date: everything the first time and once a week, otherwise what has changed. Each
 * page is kept as it comes, so that a first sync which is broken off goes on where it was. Rejects with what broke it off.
 */
export async function syncCopy({ registry, api, store, now }: Syncing, signal: AbortSignal): Promise<void> {
  const mark = (await store.mark(registry)) ?? {};
  const startedAt = now();
  const isFull = mark.fullAt === undefined || startedAt.getTime() - mark.fullAt.getTime() > FULL_EVERY_MS;
  const updatedSince = isFull ? undefined : mark.updatedSince;
  let cursor = isFull ? mark.cursor : undefined;
  const isWhole = cursor === undefined;
  // What changes while the pages come is asked for the next time, however many attempts the pages take.
  const from = new Date(startedAt.getTime() - OVERLAP_MS).toISOString();
  let newest = mark.updatedSince;
  for (let pages = 0; pages < PAGE_CAP; pages++) {
    const page = await api.page({ cursor, updatedSince }, signal).catch(async (thrown: unknown) => {
      // A cursor that the registry no longer knows would break every later sync too.
      if (pages === 0 && !signal.aborted) await forgetCursor(store, registry, mark, startedAt);
      throw thrown;
    });
    if (page.nextCursor !== undefined && page.nextCursor === cursor) throw endless(registry);
    cursor = page.nextCursor;
    newest = latest([newest, ...page.entries.map((entry) => entry.updatedAt)]);
    const isLast = cursor === undefined;
    await store.write(registry, {
      seenAt: startedAt,
      ...kept(page.entries),
      mark:
        cursor === undefined
          ? done()
          : { ...mark, ...(isFull ? { cursor, updatedSince: mark.updatedSince ?? from } : {}) },
      // What an earlier, broken-off attempt has seen was not seen now, and is there all the same.
      ...(isLast && isFull && isWhole ? { forgetBefore: startedAt } : {}),
    });
    if (isLast) return;
  }
  throw endless(registry);

  function done(): RegistryMark {
    const fullAt = isFull ? startedAt : mark.fullAt;
    return {
      syncedAt: startedAt,
      ...(fullAt === undefined ? {} : { fullAt }),
      updatedSince: isWhole ? sinceFrom(newest, startedAt) : (mark.updatedSince ?? from),
    };
  }
}

/** A little before the newest change that was seen, by the registry's clock as far as that can be. */
function sinceFrom(newest: string | undefined, startedAt: Date): string {
  const time = newest === undefined ? startedAt.getTime() : Math.min(Date.parse(newest), startedAt.getTime());
  return new Date(time - OVERLAP_MS).toISOString();
}

function kept(entries: readonly RegistryEntry[]): {
  readonly servers: readonly KeptServer[];
  readonly gone: readonly string[];
} {
  const servers = new Map<string, KeptServer>();
  const gone = new Set<string>();
  for (const { server, status, raw } of entries) {
    if (canonicalJson(raw).length > ENTRY_CHARS) continue;
    servers.delete(server.name);
    gone.delete(server.name);
    if (status === "deleted") gone.add(server.name);
    else
      servers.set(server.name, {
        name: server.name,
        version: server.version,
        status,
        title: clip(oneLine(server.title ?? ""), 200),
        description: clip(oneLine(server.description), 1000),
        entry: raw,
      });
  }
  return { servers: [...servers.values()], gone: [...gone] };
}

async function forgetCursor(store: RegistryStore, registry: string, mark: RegistryMark, seenAt: Date): Promise<void> {
  if (mark.cursor === undefined) return;
  const { cursor: _, ...rest } = mark;
  await store.write(registry, { seenAt, servers: [], gone: [], mark: rest });
}

function latest(times: readonly (string | undefined)[]): string | undefined {
  let best: string | undefined;
  for (const time of times) {
    if (time === undefined || Number.isNaN(Date.parse(time))) continue;
    if (best === undefined || Date.parse(time) > Date.parse(best)) best = time;
  }
  return best;
}

function endless(registry: string): QmError {
  return new QmError("registry_failed", `the list of the registry at ${registry} does not come to an end`, {
    hint: "What was read so far can be searched. Tell whoever runs the registry.",
  });
}
