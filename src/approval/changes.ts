import type { Approval } from "./approval.ts";
import type { ApprovalStore } from "./approval-store.ts";

/** Word of changes: at once of those made here, soon of those made in another process. */
export interface Changes {
  /** Something was done to it here. */
  made(id: string): void;
  /** The approval once `settled` says so, or as it is when the time is up. Rejects when the signal aborts. */
  until(id: string, settled: (approval: Approval) => boolean, wait: Wait): Promise<Approval | undefined>;
}

export interface Wait {
  readonly signal?: AbortSignal | undefined;
  /** Absent: as long as it takes. */
  readonly timeoutMs?: number | undefined;
}

const POLL_MS = 250;

export function createChanges(store: Pick<ApprovalStore, "get">): Changes {
  const waiting = new Map<string, Set<() => void>>();

  /** Until something is done to it here, or another process may have done something. */
  function next(id: string, { signal, timeoutMs = Number.POSITIVE_INFINITY }: Wait): Promise<void> {
    return new Promise((resolve, reject) => {
      const wakers = waiting.get(id) ?? new Set();
      const done = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", abort);
        wakers.delete(wake);
        if (wakers.size === 0) waiting.delete(id);
      };
      const wake = (): void => {
        done();
        resolve();
      };
      const abort = (): void => {
        done();
        reject(signal?.reason);
      };
      const timer = setTimeout(wake, Math.min(POLL_MS, timeoutMs));
      waiting.set(id, wakers.add(wake));
      signal?.addEventListener("abort", abort, { once: true });
      if (signal?.aborted) abort();
    });
  }

  return {
    made(id) {
      for (const wake of [...(waiting.get(id) ?? [])]) wake();
    },
    async until(id, settled, { signal, timeoutMs }) {
      const deadline = timeoutMs === undefined ? Number.POSITIVE_INFINITY : performance.now() + timeoutMs;
      for (;;) {
        signal?.throwIfAborted();
        const approval = await store.get(id);
        const left = deadline - performance.now();
        if (approval === undefined || settled(approval) || left <= 0) return approval;
        await next(id, { signal, timeoutMs: left });
      }
    },
  };
}
