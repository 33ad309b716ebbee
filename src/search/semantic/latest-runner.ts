/** Does in the background what was asked for last. */
export interface LatestRunner<T> {
  /**
   * Begun once nothing else has been asked for for a while, or when the first that was asked for since has waited long
   * enough. Tried again when it fails.
   */
  schedule(wanted: T): void;
  /** Nothing is wanted any more; what is under way is told that it is outdated. Resolves when it has ended. */
  cancel(): Promise<void>;
}

/** What never settles is begun all the same. */
const LONGEST_SETTLE_MS = 5_000;
const FIRST_RETRY_MS = 30_000;
const LONGEST_RETRY_MS = 300_000;

/** One at a time: what is outdated ends at the next convenient place, so that nothing it has made is lost. */
export function createLatestRunner<T>(
  settleMs: number,
  work: (wanted: T, isOutdated: () => boolean) => Promise<unknown>,
): LatestRunner<T> {
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
    // Not as soon as something else is wanted: what changes all the time would never get anywhere.
    const isOutdated = (): boolean => turn !== begun;
    const again = (): void => begin(wanted, turn, Math.min(retryMs * 2, LONGEST_RETRY_MS));
    last = last
      .then(() => (isOutdated() ? undefined : work(wanted, isOutdated)))
      .catch(() => {
        // A program that has nothing else to do need not wait for that.
        if (turn === newest) timer = setTimeout(again, retryMs).unref();
      });
  }

  return {
    schedule(wanted) {
      const turn = ++newest;
      beginNewest = () => {
        stopTimers();
        begin(wanted, turn, FIRST_RETRY_MS);
      };
      clearTimeout(timer);
      timer = setTimeout(() => beginNewest(), settleMs);
      overdue ??= setTimeout(() => beginNewest(), Math.max(settleMs, LONGEST_SETTLE_MS));
    },
    async cancel() {
      begun = ++newest;
      stopTimers();
      await last;
    },
  };
}
