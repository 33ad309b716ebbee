/**
 * Work that several may wait for at once: whoever comes while it is under way waits for the same. It is aborted when
 * nobody waits any longer.
 */
export function sharedWork<T>(
  work: (signal: AbortSignal) => Promise<T>,
): (signal?: AbortSignal | undefined) => Promise<T> {
  let running: { readonly done: Promise<T>; readonly controller: AbortController; waiting: number } | undefined;
  return async (signal) => {
    signal?.throwIfAborted();
    const current = running ?? begin();
    current.waiting += 1;
    let leave: (() => void) | undefined;
    const left = new Promise<never>((_, reject) => {
      leave = () => reject(signal?.reason);
      signal?.addEventListener("abort", leave, { once: true });
    });
    try {
      return await Promise.race([current.done, left]);
    } finally {
      if (leave !== undefined) signal?.removeEventListener("abort", leave);
      current.waiting -= 1;
      if (current.waiting === 0) {
        current.controller.abort();
        if (running === current) running = undefined;
      }
    }
  };

  function begin() {
    const controller = new AbortController();
    const done = work(controller.signal);
    // When all have left, nobody listens to how it ended.
    done.catch(() => undefined);
    running = { done, controller, waiting: 0 };
    return running;
  }
}
