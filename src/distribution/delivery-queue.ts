import type { Abortable } from "../core/abortable.ts";
import { type TimeLimit, withTimeout } from "../core/async.ts";
import { type ErrorCode, QmError } from "../core/errors.ts";

const publicErrors = new WeakSet<QmError>();

/** An error without content of a record, so that everyone may read it. */
export function createPublicError(code: ErrorCode, message: string): QmError {
  const error = new QmError(code, message);
  publicErrors.add(error);
  return error;
}

export const isPublicError = (thrown: unknown): boolean => thrown instanceof QmError && publicErrors.has(thrown);

/** The time limit of one delivery, with errors that everyone may read. */
export const deliveryLimit = (ms: number, signal: Abortable | undefined): TimeLimit => ({
  ms,
  signal,
  timeoutError: () => createPublicError("timed_out", `it did not finish within ${ms} ms`),
  abortError: () => createPublicError("cancelled", "it was cancelled"),
});

interface DeliveryOptions<Job> {
  deliver(job: Job, signal: AbortSignal): unknown;
  /** Called for every job that was not delivered in time. Must not throw. */
  failed(job: Job, thrown: unknown): void;
  readonly timeoutMs: number;
  readonly waiting: number;
}

/** Delivers jobs to one destination in the background, one at a time. */
export function createDeliveryQueue<Job>(options: DeliveryOptions<Job>) {
  const { deliver, failed, timeoutMs, waiting } = options;
  const queue: Job[] = [];
  const closing = new AbortController();
  let closed = false;
  let busy: Promise<void> | undefined;

  async function work(): Promise<void> {
    // Returns to the caller of `offer` first.
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
    offer(job: Job) {
      if (closed) return failed(job, createPublicError("cancelled", "the system is closing"));
      if (queue.length >= waiting) {
        return failed(job, createPublicError("overloaded", `${waiting} others are already waiting`));
      }
      queue.push(job);
      busy ??= work();
    },
    /** Refuses new jobs, waits at most `ms` for the queued ones, then cancels them. */
    async close(ms: number) {
      closed = true;
      if (busy === undefined) return;
      const timer = setTimeout(() => closing.abort(), ms);
      await busy;
      clearTimeout(timer);
    },
  };
}
