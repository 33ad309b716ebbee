import { getErrorMessage, QmError } from "../core/errors.ts";
import type { NewEvent } from "../core/events.ts";
import type { Json } from "../core/json.ts";
import type { ChainHead, EventQuery, EventStore, StoredEvent } from "./event-store.ts";
import { type ChainReport, type VerifyOptions, verifyChains } from "./hash-chain.ts";

/** Where everything that happens is written down. */
export interface Ledger {
  /**
   * Takes an event over as it is now, without its secrets; what is changed in it afterwards changes nothing. It is
   * written soon, together with all that is recorded meanwhile. Answers its number among all that were recorded here.
   * Throws when the ledger is closed or the time invalid.
   */
  record(event: NewEvent): number;
  /** The event as it would be recorded, for whoever writes it together with something else. */
  prepare(event: NewEvent): NewEvent;
  /**
   * Resolves when everything recorded before this call outlives the process. Rejects with `ledger_failed` when some of
   * it could not be written, counting from the event numbered `from`: who gives its first event is told of its own
   * losses and of nobody else's. Without it, of what is still to be written.
   */
  flush(from?: number): Promise<void>;
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
const LOSSES_LIMIT = 1000;

export function openLedger({ store, redact, onError }: LedgerOptions): Ledger {
  const queue: NewEvent[] = [];
  const lost: LedgerLoss[] = [];
  let recorded = 0;
  let settled = 0;
  let waiting: FlushWaiter[] = [];
  let writing = false;
  let closed = false;

  return {
    record(event) {
      if (closed) throw new QmError("ledger_failed", `the ledger is closed: ${event.type} was not recorded`);
      queue.push(prepareEvent(event, redact));
      if (!writing) writeSoon();
      return ++recorded;
    },
    prepare: (event) => prepareEvent(event, redact),
    flush,
    read: (query) => store.read(query),
    heads: () => store.heads(),
    verify: (options) => verifyChains(store, options),
    close() {
      closed = true;
      return flush();
    },
  };

  function flush(from = settled + 1): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiter: FlushWaiter = { from, upTo: recorded, resolve, reject };
      if (recorded === settled) settleWaiter(waiter);
      else waiting.push(waiter);
    });
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
    } catch (thrown) {
      recordLoss(batch.length, thrown);
    }
    settled += batch.length;
    const due = waiting.filter(({ upTo }) => upTo <= settled);
    waiting = waiting.filter(({ upTo }) => upTo > settled);
    for (const waiter of due) settleWaiter(waiter);
    if (queue.length > 0) writeSoon();
    else writing = false;
  }

  function recordLoss(count: number, thrown: unknown): void {
    const error = new QmError("ledger_failed", `${count} events could not be written: ${getErrorMessage(thrown)}`, {
      cause: thrown,
      ...(thrown instanceof QmError && thrown.hint !== undefined ? { hint: thrown.hint } : {}),
    });
    lost.push({ from: settled + 1, to: settled + count, error });
    if (lost.length > LOSSES_LIMIT) lost.shift();
    onError?.(error);
  }

  function settleWaiter({ from, upTo, resolve, reject }: FlushWaiter): void {
    const loss = lost.find((each) => each.from <= upTo && each.to >= from);
    if (loss === undefined) resolve();
    else reject(loss.error);
  }
}

/** Numbers of events that were not written. */
interface LedgerLoss {
  readonly from: number;
  readonly to: number;
  readonly error: QmError;
}

interface FlushWaiter {
  /** Waits for the events with these numbers. */
  readonly from: number;
  readonly upTo: number;
  readonly resolve: () => void;
  readonly reject: (error: QmError) => void;
}

function prepareEvent(event: NewEvent, redact: (value: unknown) => Json): NewEvent {
  if (Number.isNaN(event.at.getTime())) throw new QmError("ledger_failed", `${event.type} has no valid time`);
  // The redactor gives back the shape it was given, but for what it took out.
  return { ...event, at: new Date(event.at), data: redact(event.data) } as NewEvent;
}
