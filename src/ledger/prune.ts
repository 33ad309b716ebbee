import { QmError } from "../core/errors.ts";
import { type NewEvent, SYSTEM_SESSION } from "../core/events.ts";
import { omitUndefined } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import { appendToArchive } from "./archive.ts";
import { PruneRecords } from "./chain-check.ts";
import type { EventStore, StoredEvent } from "./event-store.ts";
import { CHAIN_START, hashLine } from "./hash-chain.ts";

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
  const records = await readPruneRecords(store);
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
    requireIntact(portion, records);
    if (archive !== undefined) await appendToArchive(archive, portion);
    const lasts = new Map(portion.map(({ session, seq, hash }) => [session, { session, seq, hash }]));
    for (const last of lasts.values()) records.addRemoval(last);
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

async function readPruneRecords(store: EventStore): Promise<PruneRecords> {
  const records = new PruneRecords();
  for (let after = 0; ; ) {
    const page = await store.read({ session: SYSTEM_SESSION, type: "ledger.pruned", after, limit: LINES_AT_ONCE });
    for (const event of page) records.add(event);
    const last = page.at(-1);
    if (last === undefined) return records;
    after = last.id;
  }
}

/** Throws `ledger_failed`: a changed or deleted line must not disappear unnoticed. */
function requireIntact(lines: readonly StoredEvent[], records: PruneRecords): void {
  const changed = lines.find((line, at) => {
    const { session, seq, prev } = line;
    const previous = lines[at - 1];
    const isFirst = previous?.session !== session;
    const isNext = isFirst
      ? (seq === 1 && prev === CHAIN_START) || records.has({ session, seq: seq - 1, hash: prev })
      : prev === previous.hash && seq === previous.seq + 1;
    return !isNext || hashLine(line) !== line.hash;
  });
  if (changed === undefined) return;
  const { session, seq } = changed;
  const message = `line ${seq} of session ${quoteName(session)} was changed, or the one before it is missing, so it is not removed`;
  throw new QmError("ledger_failed", message, {
    hint: "{qm events verify} shows every broken event.",
  });
}
