const LONGEST_SETTLE_MS = 5_000;
const FIRST_RETRY_MS = 30_000;
const LONGEST_RETRY_MS = 300_000;

/** Runs the work for the latest request in the background, one run at a time. Outdated work ends by itself, so that its results so far are not lost. */
export function createLatestRunner<T>(delayMs: number, work: (item: T, isOutdated: () => boolean) => Promise<unknown>) {
  let newest = 0;
  let begun = 0;
  let timer: NodeJS.Timeout | undefined;
  let overdue: NodeJS.Timeout | undefined;
  let beginNewest = (): void => {};
  let last: Promise<unknown> = Promise.resolve();

  function stopTimers(): void {
    clearTimeout(timer);
    clearTimeout(overdue);
    overdue = undefined;
  }

  function begin(wanted: T, turn: number, retryMs: number): void {
    begun = turn;
    // Outdated only when the next run begins. Otherwise frequent requests would never let one finish.
    const isOutdated = (): boolean => turn !== begun;
    const again = (): void => begin(wanted, turn, Math.min(retryMs * 2, LONGEST_RETRY_MS));
    last = last
      .then(() => (isOutdated() ? undefined : work(wanted, isOutdated)))
      .catch(() => {
        // Does not keep the process alive.
        if (turn === newest) timer = setTimeout(again, retryMs).unref();
      });
  }

  return {
    /** Starts once there was no other request for a while, or after a maximum delay. Retries after a failure. */
    schedule(wanted: T): void {
      const turn = ++newest;
      beginNewest = () => {
        stopTimers();
        begin(wanted, turn, FIRST_RETRY_MS);
      };
      clearTimeout(timer);
      timer = setTimeout(() => beginNewest(), delayMs);
      overdue ??= setTimeout(() => beginNewest(), Math.max(delayMs, LONGEST_SETTLE_MS));
    },
    /** Drops the request and marks running work as outdated. Resolves when that work has ended. */
    async cancel() {
      begun = ++newest;
      stopTimers();
      await last;
    },
  };
}
