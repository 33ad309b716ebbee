/** Does in the background what was asked for last. */
export interface Latest<T> {
  /** Begun once nothing else has been asked for for a while, and tried again when it fails. */
  want(wanted: T): void;
  /** Nothing is wanted any more; what is under way is told that it is outdated. Resolves when it has ended. */
  forget(): Promise<void>;
}

const FIRST_RETRY_MS = 30_000;
const LONGEST_RETRY_MS = 300_000;

/** One at a time: what is outdated ends at the next convenient place, so that nothing it has made is lost. */
export function latest<T>(
  settleMs: number,
  work: (wanted: T, isOutdated: () => boolean) => Promise<unknown>,
): Latest<T> {
  let newest = 0;
  let timer: NodeJS.Timeout | undefined;
  let last: Promise<unknown> = Promise.resolve();

  function begin(wanted: T, turn: number, retryMs: number): void {
    const isOutdated = (): boolean => turn !== newest;
    const again = (): void => begin(wanted, turn, Math.min(retryMs * 2, LONGEST_RETRY_MS));
    last = last
      .then(() => (isOutdated() ? undefined : work(wanted, isOutdated)))
      .catch(() => {
        // A program that has nothing else to do need not wait for that.
        if (!isOutdated()) timer = setTimeout(again, retryMs).unref();
      });
  }

  return {
    want(wanted) {
      const turn = ++newest;
      clearTimeout(timer);
      timer = setTimeout(() => begin(wanted, turn, FIRST_RETRY_MS), settleMs);
    },
    async forget() {
      newest++;
      clearTimeout(timer);
      await last;
    },
  };
}
