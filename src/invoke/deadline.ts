/** A time limit that stands still while something is waited for that is not to be counted. */
export interface Deadline {
  /** Waits without the time counting. May be used again before the first has ended. */
  untimed<T>(work: () => Promise<T>): Promise<T>;
  clear(): void;
}

export function startDeadline(ms: number, onLate: () => void): Deadline {
  let left = ms;
  let since = performance.now();
  let timer: NodeJS.Timeout | undefined = setTimeout(onLate, left);
  let waiting = 0;
  let cleared = false;

  function pause(): void {
    if (waiting++ > 0) return;
    clearTimeout(timer);
    left -= performance.now() - since;
  }

  function resume(): void {
    if (--waiting > 0 || cleared) return;
    since = performance.now();
    timer = setTimeout(onLate, Math.max(0, left));
  }

  return {
    async untimed(work) {
      pause();
      try {
        return await work();
      } finally {
        resume();
      }
    },
    clear() {
      cleared = true;
      clearTimeout(timer);
    },
  };
}
