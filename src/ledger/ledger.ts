import { messageOf, QmError } from "../core/errors.ts";
import type { NewEvent } from "../core/events.ts";
import type { Json } from "../core/json.ts";
import type { ChainHead, EventQuery, EventStore, StoredEvent } from "./event-store.ts";
import { type ChainReport, type VerifyOptions, verifyChains } from "./verify.ts";

/** Where everything that happens is written down. */
export interface Ledger {
  /**
   * Takes an event over as it is now, without its secrets; what is changed in it afterwards changes nothing. It is
   * written soon, together with all that is recorded meanwhile. Throws when the ledger is closed or the time invalid.
   */
  record(event: NewEvent): void;
  /**
   * Resolves when everything recorded before this call outlives the process. Rejects with `ledger_failed` when some of
   * it could not be written; a loss that nobody waited for is told to whoever asks next.
   */
  flushed(): Promise<void>;
  read(query: EventQuery): Promise<readonly StoredEvent[]>;
  /** The end of every session's chain: kept elsewhere, they show later whether anything was rewritten. */
  heads(): Promise<readonly ChainHead[]>;
  verify(options?: VerifyOptions): Promise<ChainReport>;
  /** Writes what is left and takes no more. The store stays open. */
  close(): Promise<void>;
}

export interface LedgerOptions {
  readonly store: EventStore;
  readonly redact: (value: unknown) => Json;
  /** Told of every batch that could not be written, whether somebody waits for it or not. */
  readonly onError?: (error: QmError) => void;
}

const BATCH_LIMIT = 512;

export function openLedger({ store, redact, onError }: LedgerOptions): Ledger {
  const queue: NewEvent[] = [];
  let recorded = 0;
  let settled = 0;
  let waiting: Waiter[] = [];
  let untold: QmError | undefined;
  let writing = false;
  let closed = false;

  return {
    record(event) {
      if (closed) throw new QmError("ledger_failed", `the ledger is closed: ${event.type} was not recorded`);
      queue.push(taken(event, redact));
      recorded++;
      if (!writing) writeSoon();
    },
    flushed,
    read: (query) => store.read(query),
    heads: () => store.heads(),
    verify: (options) => verifyChains(store, options),
    close() {
      closed = true;
      return flushed();
    },
  };

  function flushed(): Promise<void> {
    if (untold !== undefined) {
      const error = untold;
      untold = undefined;
      return Promise.reject(error);
    }
    if (recorded === settled) return Promise.resolve();
    return new Promise((resolve, reject) => waiting.push({ upTo: recorded, resolve, reject }));
  }

  // After the callbacks that are due now: whatever they record goes out in the same transaction.
  function writeSoon(): void {
    writing = true;
    setImmediate(() => void writeBatch());
  }

  async function writeBatch(): Promise<void> {
    const batch = queue.splice(0, BATCH_LIMIT);
    try {
      await store.append(batch);
      settled += batch.length;
      const done = waiting.filter(({ upTo }) => upTo <= settled);
      waiting = waiting.filter(({ upTo }) => upTo > settled);
      for (const { resolve } of done) resolve();
    } catch (thrown) {
      settled += batch.length;
      fail(batch.length, thrown);
    } finally {
      if (queue.length > 0) writeSoon();
      else writing = false;
    }
  }

  // Batches go out in order, so everybody who waits now waits for the one that failed.
  function fail(count: number, thrown: unknown): void {
    const error = new QmError("ledger_failed", `${count} events could not be written: ${messageOf(thrown)}`, {
      cause: thrown,
      ...(thrown instanceof QmError && thrown.hint !== undefined ? { hint: thrown.hint } : {}),
    });
    if (waiting.length === 0) untold = error;
    for (const { reject } of waiting) reject(error);
    waiting = [];
    onError?.(error);
  }
}

interface Waiter {
  /** Waits for the first so many events of this ledger. */
  readonly upTo: number;
  readonly resolve: () => void;
  readonly reject: (error: QmError) => void;
}

function taken(event: NewEvent, redact: (value: unknown) => Json): NewEvent {
  if (Number.isNaN(event.at.getTime())) throw new QmError("ledger_failed", `${event.type} has no valid time`);
  // The redactor gives back the shape it was given, but for what it took out.
  return { ...event, at: new Date(event.at), data: redact(event.data) } as NewEvent;
}
