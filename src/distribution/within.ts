import type { QmError } from "../core/errors.ts";
import { ownProblem } from "./own-problem.ts";

/**
 * Waits for work for so long. Rejects with `timed_out`, or with `cancelled` when `outer` is aborted, and tells the work
 * through its signal; work whose `outer` is aborted already is not begun.
 */
export async function within<T>(
  ms: number,
  work: (signal: AbortSignal) => T | Promise<T>,
  outer?: AbortSignal,
): Promise<T> {
  const controller = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let cancel = (): void => {};
  const stopped = new Promise<never>((_resolve, reject) => {
    const stop = (reason: QmError): void => {
      controller.abort(reason);
      reject(reason);
    };
    cancel = () => stop(ownProblem("cancelled", "it was cancelled"));
    timer = setTimeout(() => stop(ownProblem("timed_out", `it did not end within ${ms} ms`)), ms);
    outer?.addEventListener("abort", cancel, { once: true });
    if (outer?.aborted) cancel();
  });
  try {
    return await Promise.race([stopped, begun(work, controller.signal)]);
  } finally {
    clearTimeout(timer);
    outer?.removeEventListener("abort", cancel);
  }
}

/** What throws before its first await has failed like anything else. */
async function begun<T>(work: (signal: AbortSignal) => T | Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  return work(signal);
}
