import type { NewEvent } from "../core/events.ts";
import type { LeaseHolder } from "../core/lease.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Approval, ApprovalQuery, RecordedAnswer } from "./approval.ts";

export interface ClaimedApproval {
  readonly approval: Approval;
  readonly executor: LeaseHolder;
}

/** What is new when a question is put. */
export type NewApproval = Omit<
  Approval,
  "state" | "answer" | "executor" | "begunAt" | "endedAt" | "status" | "outcome" | "delivered"
>;

/**
 * What approvals need of a store. Every change names the state it starts from and answers whether it was made, in one
 * statement: of two processes that want the same change, one makes it.
 */
export interface ApprovalStore {
  /**
   * Puts the question, or answers the one that stands for the same binding already: one that is not over, or whose
   * outcome its caller has not been given. Throws `overloaded` where the session has as many open as `maxOpen`.
   */
  request(approval: NewApproval, maxOpen: number): Promise<{ readonly approval: Approval; readonly isNew: boolean }>;
  get(id: string): Promise<Approval | undefined>;
  /** Without outcomes: they can be long. */
  list(query: ApprovalQuery): Promise<readonly Approval[]>;
  /** Those `pending` or `approved` whose time is over by then; some of them, where there are very many. */
  listLate(at: Date): Promise<readonly Approval[]>;
  /**
   * From `pending`, where it has not expired at the time of the answer. The events that say so are written in the same
   * transaction: no crash leaves an answer without its event, or an event without its answer.
   */
  answer(
    id: string,
    answer: RecordedAnswer & { readonly decision: "approved" | "denied" },
    events: readonly NewEvent[],
  ): Promise<boolean>;
  /** From `pending` or `approved` to `expired`. */
  expire(id: string, answer: RecordedAnswer & { readonly decision: "expired" }): Promise<boolean>;
  /** From `approved` to `executing`. */
  claim(id: string, executor: LeaseHolder): Promise<boolean>;
  /** Of what the executor has claimed: that its handler is about to be entered. False: it has been taken away. */
  begin(id: string, executorId: string, at: Date): Promise<boolean>;
  /** From `executing` back to `approved`, only before it has begun. */
  release(id: string, executorId: string): Promise<boolean>;
  /** From `executing` to `expired`, only before it has begun: what was agreed to is not what would run now. */
  void(id: string, executorId: string, answer: RecordedAnswer & { readonly decision: "expired" }): Promise<boolean>;
  /** From `executing`, or from `interrupted` by the executor that was taken for dead, to `done`. */
  finish(id: string, executorId: string, ended: { readonly at: Date; readonly outcome: Outcome }): Promise<boolean>;
  /** From `executing` to `interrupted`, only after it has begun. */
  interrupt(id: string, executorId: string, at: Date): Promise<boolean>;
  /**
   * Of what a process that is gone has left ended and not known to be in the ledger: that `by` sees to it now. One of
   * several that want to does.
   */
  takeOver(id: string, gone: LeaseHolder, by: LeaseHolder): Promise<boolean>;
  /** How it ended is in the ledger, too. */
  markRecorded(id: string): Promise<void>;
  /** The caller has been given the outcome. Answers whether this was the first time. */
  deliver(id: string): Promise<boolean>;
  renew(executorId: string, leaseUntil: Date): Promise<void>;
  /** What processes have claimed and not ended, and what is done or interrupted and not known to be in the ledger. */
  listClaimed(): Promise<readonly ClaimedApproval[]>;
  /** Over, delivered or not, and older than that. Answers how many were removed. */
  prune(before: Date): Promise<number>;
}

/** Word of changes: at once of those made here, soon of those made in another process. */
export interface ApprovalWatcher {
  /** Something was done to it here. */
  notify(id: string): void;
  /** The approval once `settled` says so, or as it is when the time is up. Rejects when the signal aborts. */
  waitUntil(id: string, settled: (approval: Approval) => boolean, wait: ApprovalWait): Promise<Approval | undefined>;
}

export interface ApprovalWait {
  readonly signal?: AbortSignal | undefined;
  /** Absent: as long as it takes. */
  readonly timeoutMs?: number | undefined;
}

const POLL_MS = 250;

export function createApprovalWatcher(store: Pick<ApprovalStore, "get">): ApprovalWatcher {
  const waiting = new Map<string, Set<() => void>>();

  /** Until something is done to it here, or another process may have done something. */
  function waitForChange(id: string, { signal, timeoutMs = Number.POSITIVE_INFINITY }: ApprovalWait): Promise<void> {
    return new Promise((resolve, reject) => {
      const wakers = waiting.get(id) ?? new Set();
      const cleanUp = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", abort);
        wakers.delete(wake);
        if (wakers.size === 0) waiting.delete(id);
      };
      const wake = (): void => {
        cleanUp();
        resolve();
      };
      const abort = (): void => {
        cleanUp();
        reject(signal?.reason);
      };
      const timer = setTimeout(wake, Math.min(POLL_MS, timeoutMs));
      waiting.set(id, wakers.add(wake));
      signal?.addEventListener("abort", abort, { once: true });
      if (signal?.aborted) abort();
    });
  }

  return {
    notify(id) {
      for (const wake of [...(waiting.get(id) ?? [])]) wake();
    },
    async waitUntil(id, settled, { signal, timeoutMs }) {
      const deadline = timeoutMs === undefined ? Number.POSITIVE_INFINITY : performance.now() + timeoutMs;
      for (;;) {
        signal?.throwIfAborted();
        const approval = await store.get(id);
        const left = deadline - performance.now();
        if (approval === undefined || settled(approval) || left <= 0) return approval;
        await waitForChange(id, { signal, timeoutMs: left });
      }
    },
  };
}
