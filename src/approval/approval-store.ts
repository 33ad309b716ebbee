import { EventEmitter } from "node:events";
import { raceAbort } from "../core/async.ts";
import type { NewEvent } from "../core/events.ts";
import type { FileBytes, GetContent } from "../core/file-digest.ts";
import type { LeaseHolder } from "../core/lease.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Approval, ApprovalQuery, RecordedAnswer } from "./approval.ts";

export type ClaimedApproval = { readonly approval: Approval; readonly executor: LeaseHolder };

export type NewApproval = Omit<
  Approval,
  "state" | "answer" | "executor" | "begunAt" | "endedAt" | "status" | "outcome" | "delivered"
>;

/** Each change names its initial state and returns whether it was made: of several processes, exactly one makes it. */
export interface ApprovalStore {
  /**
   * Adds a question with the bytes of its files, or returns the open or undelivered one of the same binding. Throws
   * `overloaded` at `maxOpen`.
   */
  request(
    approval: NewApproval,
    maxOpen: number,
    files?: FileBytes,
  ): Promise<{ readonly approval: Approval; readonly isNew: boolean }>;
  /** The bytes of a file of a question. */
  readonly getContent: GetContent;
  get(id: string): Promise<Approval | undefined>;
  list(query: ApprovalQuery): Promise<readonly Approval[]>;
  listLate(at: Date): Promise<readonly Approval[]>;
  /** From `pending`, if not expired. Writes the events in the same transaction, so that a crash cannot part them. */
  answer(
    id: string,
    answer: RecordedAnswer & { readonly decision: "approved" | "denied" },
    events: readonly NewEvent[],
  ): Promise<boolean>;
  /** From `pending` or `approved` to `expired`. */
  expire(id: string, answer: RecordedAnswer & { readonly decision: "expired" }): Promise<boolean>;
  /** From `approved` to `executing`. */
  claim(id: string, executor: LeaseHolder): Promise<boolean>;
  /** Marks that the executor is about to call the handler. False: another process has taken the call away. */
  begin(id: string, executorId: string, at: Date): Promise<boolean>;
  /** From `executing` back to `approved`, only before it has begun. */
  release(id: string, executorId: string): Promise<boolean>;
  /** From `executing` to `expired`, only before it has begun: the approved call is not what would run now. */
  void(id: string, executorId: string, answer: RecordedAnswer & { readonly decision: "expired" }): Promise<boolean>;
  /** From `executing` to `done`; also from `interrupted`, by the executor that was wrongly taken for dead. */
  finish(id: string, executorId: string, ended: { readonly at: Date; readonly outcome: Outcome }): Promise<boolean>;
  /** From `executing` to `interrupted`, only after it has begun. */
  interrupt(id: string, executorId: string, at: Date): Promise<boolean>;
  /** Makes `by` responsible for recording the end of a call whose process is gone. */
  takeOver(id: string, gone: LeaseHolder, by: LeaseHolder): Promise<boolean>;
  markRecorded(id: string): Promise<void>;
  /** Marks that the caller has the outcome. Returns whether this was the first time. */
  deliver(id: string): Promise<boolean>;
  renew(executorId: string, leaseUntil: Date): Promise<void>;
  /** Claimed calls that have not ended, and ended ones that may be missing in the ledger. */
  listClaimed(): Promise<readonly ClaimedApproval[]>;
  /** Removes finished approvals that ended before. Returns how many. */
  prune(before: Date): Promise<number>;
}

/** Reports changes: those of this process at once, those of others soon. */
export interface ApprovalWatcher {
  notify(id: string): void;
  /** Resolves to the approval once `settled` is true, or as it is at the timeout. Rejects when the signal aborts. */
  waitUntil(id: string, settled: (approval: Approval) => boolean, wait: ApprovalWait): Promise<Approval | undefined>;
}

export type ApprovalWait = { readonly signal?: AbortSignal | undefined; readonly timeoutMs?: number | undefined };
const POLL_MS = 250;

export function createApprovalWatcher(store: Pick<ApprovalStore, "get">): ApprovalWatcher {
  const changes = new EventEmitter().setMaxListeners(0);

  async function waitForChange(id: string, signal: AbortSignal | undefined, ms: number): Promise<void> {
    let wake = (): void => {};
    const woken = new Promise<void>((resolve) => {
      wake = resolve;
    });
    const timer = setTimeout(wake, Math.min(POLL_MS, ms));
    changes.once(id, wake);
    try {
      await raceAbort(woken, signal);
    } finally {
      clearTimeout(timer);
      changes.off(id, wake);
    }
  }

  return {
    notify: (id) => void changes.emit(id),
    async waitUntil(id, settled, { signal, timeoutMs = Number.POSITIVE_INFINITY }) {
      const deadline = performance.now() + timeoutMs;
      for (;;) {
        signal?.throwIfAborted();
        const approval = await store.get(id);
        const left = deadline - performance.now();
        if (approval === undefined || settled(approval) || left <= 0) return approval;
        await waitForChange(id, signal, left);
      }
    },
  };
}
