import { withTimeout } from "../core/async.ts";
import { deliveryLimit, ownProblem } from "./own-problem.ts";

/** Takes jobs to one destination, one after the other, while nobody waits. */
export interface Delivery<Job> {
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

export function createDelivery<Job>({ deliver, failed, timeoutMs, waiting }: DeliveryParts<Job>): Delivery<Job> {
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
      if (closed) return failed(job, ownProblem("cancelled", "the system is closing"));
      if (queue.length >= waiting)
        return failed(job, ownProblem("overloaded", `${waiting} others are waiting already`));
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
