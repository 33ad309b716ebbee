import { QmError } from "../core/errors.ts";
import { type NewEvent, SYSTEM_SESSION } from "../core/events.ts";
import { omitUndefined } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import { appendToArchive } from "./archive.ts";
import type { EventStore, StoredEvent } from "./event-store.ts";
import { hashLine } from "./hash-chain.ts";

export interface PruneOptions {
  /** Events from this time on stay. */
  readonly before: Date;
  /** The file to which removed events are appended first. Absent: they are gone. */
  readonly archive?: string;
  readonly signal?: AbortSignal;
}

export type PruneReport = { readonly events: number; readonly sessions: number };

const LINES_AT_ONCE = 1_000;

/**
 * Removes the oldest events of every chain. Keeps events that open approvals and unfinished turns need, with all later ones
 * of their session. Each step removes and records in one transaction, so verification succeeds after a crash.
 */
export async function pruneLedger(
  store: EventStore,
  { before, archive, signal }: PruneOptions,
  now: () => Date,
): Promise<PruneReport> {
  const held = await store.listHeld();
  // Never the records that this run writes.
  const latest = Math.min(before.getTime(), now().getTime());
  const sessions = new Set<string>();
  let events = 0;
  let portion: StoredEvent[] = [];
  // The system's chain comes last: the records of the others are in it.
  const heads = (await store.heads()).toSorted(
    (a, b) => Number(a.session === SYSTEM_SESSION) - Number(b.session === SYSTEM_SESSION),
  );
  for (const { session } of heads) {
    const limit = new Date(Math.min(latest, held.get(session)?.getTime() ?? Number.POSITIVE_INFINITY));
    if (session === SYSTEM_SESSION) await removePortion();
    for (let isMore = true; isMore; ) {
      signal?.throwIfAborted();
      const room = LINES_AT_ONCE - portion.length;
      const last = portion.at(-1);
      const after = last?.session === session ? last.id : 0;
      const lines = await store.read({ session, after, limit: room });
      const end = lines.findIndex(({ at }) => at >= limit.toISOString());
      const old = end === -1 ? lines : lines.slice(0, end);
      isMore = old.length === room;
      portion.push(...old);
      if (isMore) await removePortion();
    }
  }
  await removePortion();
  return { events, sessions: sessions.size };

  async function removePortion(): Promise<void> {
    if (portion.length === 0) return;
    requireIntact(portion);
    if (archive !== undefined) await appendToArchive(archive, portion);
    const lasts = new Map(portion.map(({ session, seq, hash }) => [session, { session, seq, hash }]));
    await store.prune([...lasts.values()], (chains) => {
      const data = {
        before: before.toISOString(),
        events: portion.length,
        chains: [...chains],
        ...omitUndefined({ archive }),
      };
      return { type: "ledger.pruned", at: now(), session: SYSTEM_SESSION, data } as NewEvent;
    });
    events += portion.length;
    for (const session of lasts.keys()) sessions.add(session);
    portion = [];
  }
}

/** Throws `ledger_failed`: a changed line must not disappear unnoticed. */
function requireIntact(lines: readonly StoredEvent[]): void {
  const changed = lines.find((line, at) => {
    const previous = lines[at - 1];
    const isNext = previous?.session !== line.session || (line.prev === previous.hash && line.seq === previous.seq + 1);
    return !isNext || hashLine(line) !== line.hash;
  });
  if (changed === undefined) return;
  const { session, seq } = changed;
  throw new QmError("ledger_failed", `line ${seq} of session ${quoteName(session)} was changed, so it is not removed`, {
    hint: "{qm events verify} shows every broken event.",
  });
}
