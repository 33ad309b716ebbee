import { onAbort } from "../../core/async.ts";
import { toAbortError } from "./server-errors.ts";

/** Limits how many pieces of work run at once. Waiting work starts in the order of the calls. */
export class Semaphore {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(count: number) {
    this.#free = count;
  }

  /** Runs the work in a slot. Throws the signal's reason if it aborts before a slot is free. */
  async run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    if (this.#free > 0 && !signal.aborted) this.#free--;
    else await this.#waitForSlot(signal);
    try {
      return await work();
    } finally {
      const [next] = this.#waiting;
      if (next === undefined) this.#free++;
      else next();
    }
  }

  #waitForSlot(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const enter = () => {
        this.#waiting.delete(enter);
        stopListening();
        resolve();
      };
      this.#waiting.add(enter);
      const stopListening = onAbort(signal, () => {
        this.#waiting.delete(enter);
        reject(toAbortError(signal));
      });
    });
  }
}
