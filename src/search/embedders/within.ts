/**
 * Runs `work` with a signal that aborts with `outer`, or with `late` after so many milliseconds. Settles then too when
 * the work does not listen.
 */
export async function within<T>(
  { ms, late, signal: outer }: { readonly ms: number; readonly late: () => Error; readonly signal?: AbortSignal },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const { signal } = controller;
  const cancel = (): void => controller.abort(outer?.reason);
  const timer = setTimeout(() => controller.abort(late()), ms);
  outer?.addEventListener("abort", cancel, { once: true });
  if (outer?.aborted) cancel();
  try {
    return await new Promise<T>((resolve, reject) => {
      const abort = (): void => reject(signal.reason);
      if (signal.aborted) return abort();
      signal.addEventListener("abort", abort, { once: true });
      work(signal).then(resolve, reject);
    });
  } finally {
    clearTimeout(timer);
    outer?.removeEventListener("abort", cancel);
  }
}
