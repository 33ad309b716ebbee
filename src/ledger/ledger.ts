import { getErrorMessage, QmError } from "../core/errors.ts";
import type { NewEvent } from "../core/events.ts";
import { type Json, omitUndefined } from "../core/json.ts";
import type { ChainHead, EventQuery, EventStore, StoredEvent } from "./event-store.ts";
import { type ChainReport, type VerifyOptions, verifyChains } from "./verify-chains.ts";

export interface Ledger {
  /** Copies an event without its secrets and writes it soon. Returns its number. Throws `ledger_failed` when closed. */
  record(event: NewEvent): number;
  /** The event as `record` would write it, for a store that writes it in its own transaction. */
  prepare(event: NewEvent): NewEvent;
  /**
   * Resolves when everything recorded before this call survives the process. Rejects with `ledger_failed` if an event
   * from number `from` on was lost. Pass the number of your first event to hear of your own losses only. Default: the
   * first unwritten event.
   */
  flush(from?: number): Promise<void>;
  read(query: EventQuery): Promise<readonly StoredEvent[]>;
  /** The end of every session's chain. Save them elsewhere to detect a rewrite later. */
  heads(): Promise<readonly ChainHead[]>;
  verify(options?: VerifyOptions): Promise<ChainReport>;
  /** Flushes and rejects further events. The store stays open. */
  close(): Promise<void>;
}

const BATCH_LIMIT = 512;
const LOSSES_LIMIT = 1000;
const WRITE_LATER_MS = 20;

export function openLedger(options: {
  readonly store: EventStore;
  readonly redact: (value: unknown) => Json;
  /** Called for every batch that was lost, even if no caller waits for it. */
  readonly onError?: (error: QmError) => void;
}): Ledger {
  const { store, redact, onError } = options;
  const queue: NewEvent[] = [];
  const lost: { readonly from: number; readonly to: number; readonly error: QmError }[] = [];
  let recorded = 0;
  let settled = 0;
  let waiting: { readonly upTo: number; readonly settle: () => void }[] = [];
  let writing = false;
  let writesLater = false;
  let closed = false;
  return {
    record(event) {
      if (closed) throw new QmError("ledger_failed", `the ledger is closed: ${event.type} was not recorded`);
      queue.push(prepare(event));
      if (queue.length >= BATCH_LIMIT && !writing) writeSoon();
      else writeLater();
      return ++recorded;
    },
    prepare,
    flush,
    read: (query) => store.read(query),
    heads: () => store.heads(),
    verify: (verifyOptions) => verifyChains(store, verifyOptions),
    close() {
      closed = true;
      return flush();
    },
  };

  function prepare(event: NewEvent): NewEvent {
    if (Number.isNaN(event.at.getTime())) throw new QmError("ledger_failed", `${event.type} has no valid time`);
    return { ...event, at: new Date(event.at), data: redact(event.data) } as NewEvent;
  }

  function flush(from = settled + 1): Promise<void> {
    const upTo = recorded;
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        const loss = lost.find((each) => each.from <= upTo && each.to >= from);
        if (loss === undefined) resolve();
        else reject(loss.error);
      };
      if (upTo === settled) return settle();
      waiting.push({ upTo, settle });
      if (!writing) writeSoon();
    });
  }

  /** Events that nobody waits for go out with those of a call that does, or after a while. So most calls cost one write. */
  function writeLater(): void {
    if (writesLater) return;
    writesLater = true;
    setTimeout(() => {
      writesLater = false;
      if (queue.length > 0 && !writing) writeSoon();
    }, WRITE_LATER_MS);
  }

  /** Waits for the callbacks that are due now, so that their events go out in the same transaction. */
  function writeSoon(): void {
    writing = true;
    setImmediate(() => void writeBatch());
  }

  async function writeBatch(): Promise<void> {
    const batch = queue.splice(0, BATCH_LIMIT);
    try {
      await store.append(batch);
    } catch (thrown) {
      recordLoss(batch.length, thrown);
    }
    settled += batch.length;
    const due = waiting.filter(({ upTo }) => upTo <= settled);
    waiting = waiting.filter(({ upTo }) => upTo > settled);
    for (const { settle } of due) settle();
    writing = waiting.length > 0 || queue.length >= BATCH_LIMIT;
    if (writing) writeSoon();
  }

  function recordLoss(count: number, cause: unknown): void {
    const hint = cause instanceof QmError ? cause.hint : undefined;
    const message = `${count} events could not be written: ${getErrorMessage(cause)}`;
    const error = new QmError("ledger_failed", message, omitUndefined({ cause, hint }));
    lost.push({ from: settled + 1, to: settled + count, error });
    if (lost.length > LOSSES_LIMIT) lost.shift();
    onError?.(error);
  }
}
