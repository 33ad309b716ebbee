import { type TimeLimit, withTimeout } from "../core/async.ts";
import { type ErrorCode, QmError } from "../core/errors.ts";

const publicErrors = new WeakSet<QmError>();

/** A problem in our own words: nothing of a record is in it, so everybody may read it. */
export function createPublicError(code: ErrorCode, message: string): QmError {
  const problem = new QmError(code, message);
  publicErrors.add(problem);
  return problem;
}

export function isPublicError(thrown: unknown): boolean {
  return thrown instanceof QmError && publicErrors.has(thrown);
}

/** The time limit of one delivery, with errors that everyone may read. */
export function deliveryLimit(ms: number, signal: AbortSignal | undefined): TimeLimit {
  return {
    ms,
    signal,
    timeoutError: () => createPublicError("timed_out", `it did not end within ${ms} ms`),
    abortError: () => createPublicError("cancelled", "it was cancelled"),
  };
}

/** Takes jobs to one destination, one after the other, while nobody waits. */
export interface DeliveryQueue<Job> {
  offer(job: Job): void;
  /** Waits for what is waiting, for so long; then gives up on it. Takes nothing more. */
  close(ms: number): Promise<void>;
}

interface DeliveryParts<Job> {
  deliver(job: Job, signal: AbortSignal): unknown;
  /** Told of every job that was not delivered, or not in time. Must not throw. */
  failed(job: Job, thrown: unknown): void;
  readonly timeoutMs: number;
  /** Jobs waiting behind the one under way, beyond which one is dropped. */
  readonly waiting: number;
}

export function createDeliveryQueue<Job>({
  deliver,
  failed,
  timeoutMs,
  waiting,
}: DeliveryParts<Job>): DeliveryQueue<Job> {
  const queue: Job[] = [];
  const closing = new AbortController();
  let closed = false;
  let busy: Promise<void> | undefined;

  async function work(): Promise<void> {
    // Whoever offers goes on first.
    await Promise.resolve();
    for (let job = queue.shift(); job !== undefined; job = queue.shift()) {
      const current = job;
      try {
        await withTimeout(deliveryLimit(timeoutMs, closing.signal), (signal) => deliver(current, signal));
      } catch (thrown) {
        failed(current, thrown);
      }
    }
    busy = undefined;
  }

  return {
    offer(job) {
      if (closed) return failed(job, createPublicError("cancelled", "the system is closing"));
      if (queue.length >= waiting)
        return failed(job, createPublicError("overloaded", `${waiting} others are waiting already`));
      queue.push(job);
      busy ??= work();
    },
    async close(ms) {
      closed = true;
      if (busy === undefined) return;
      const timer = setTimeout(() => closing.abort(), ms);
      await busy;
      clearTimeout(timer);
    },
  };
}
