import { QmError } from "../core/errors.ts";

/** Lets so many in at a time and keeps the rest waiting in turn. */
export interface Limiter {
  /**
   * Resolves with the function that gives the place back. Rejects with `overloaded` when too many wait already, and
   * with the signal's reason when it is aborted while waiting.
   */
  enter(signal: AbortSignal): Promise<() => void> | (() => void);
}

export function createLimiter(limit: number, queue: number): Limiter {
  let inside = 0;
  const waiting = new Set<() => void>();

  const leave = (): void => {
    const [next] = waiting;
    if (next === undefined) inside--;
    else {
      waiting.delete(next);
      next();
    }
  };
  const place = (): (() => void) => {
    let given = false;
    return () => {
      if (!given) leave();
      given = true;
    };
  };

  return {
    enter(signal) {
      if (inside < limit) {
        inside++;
        return place();
      }
      if (waiting.size >= queue) {
        throw new QmError("overloaded", `${limit} calls are running and ${queue} are waiting`, {
          hint: "Try again when some have ended.",
        });
      }
      return new Promise((resolve, reject) => {
        const enter = (): void => {
          signal.removeEventListener("abort", giveUp);
          resolve(place());
        };
        const giveUp = (): void => {
          waiting.delete(enter);
          reject(signal.reason);
        };
        if (signal.aborted) return giveUp();
        waiting.add(enter);
        signal.addEventListener("abort", giveUp, { once: true });
      });
    },
  };
}
