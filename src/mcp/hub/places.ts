import { abortError } from "./aborted.ts";

/** So many at once; whoever comes later waits for a place, in order. */
export interface Places {
  /** Runs the work in a place. Throws the signal's reason if it is aborted while there is none. */
  take<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T>;
}

export function places(count: number): Places {
  let free = count;
  const waiting = new Set<() => void>();
  const release = () => {
    const [next] = waiting;
    if (next === undefined) free++;
    else next();
  };
  const entry = (signal: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      const enter = () => {
        waiting.delete(enter);
        signal.removeEventListener("abort", leave);
        resolve();
      };
      const leave = () => {
        waiting.delete(enter);
        reject(abortError(signal));
      };
      if (signal.aborted) return leave();
      signal.addEventListener("abort", leave, { once: true });
      waiting.add(enter);
    });
  return {
    async take(signal, work) {
      if (free > 0 && !signal.aborted) free--;
      else await entry(signal);
      try {
        return await work();
      } finally {
        release();
      }
    },
  };
}
