import { toAbortError } from "./server-errors.ts";

/** So many at once; whoever comes later waits for a place, in order. */
export interface Semaphore {
  /** Runs the work in a place. Throws the signal's reason if it is aborted while there is none. */
  run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T>;
}

export function createSemaphore(count: number): Semaphore {
  let free = count;
  const waiting = new Set<() => void>();
  const release = () => {
    const [next] = waiting;
    if (next === undefined) free++;
    else next();
  };
  const waitForSlot = (signal: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      const enter = () => {
        waiting.delete(enter);
        signal.removeEventListener("abort", leave);
        resolve();
      };
      const leave = () => {
        waiting.delete(enter);
        reject(toAbortError(signal));
      };
      if (signal.aborted) return leave();
      signal.addEventListener("abort", leave, { once: true });
      waiting.add(enter);
    });
  return {
    async run(signal, work) {
      if (free > 0 && !signal.aborted) free--;
      else await waitForSlot(signal);
      try {
        return await work();
      } finally {
        release();
      }
    },
  };
}
