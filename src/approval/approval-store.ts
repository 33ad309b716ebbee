import type { NewEvent } from "../core/events.ts";
import type { LeaseHolder } from "../core/lease.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Approval, ApprovalQuery, GivenAnswer } from "./approval.ts";

export interface Claimed {
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
  late(at: Date): Promise<readonly Approval[]>;
  /**
   * From `pending`, where it has not expired at the time of the answer. The events that say so are written in the same
   * transaction: no crash leaves an answer without its event, or an event without its answer.
   */
  answer(
    id: string,
    answer: GivenAnswer & { readonly decision: "approved" | "denied" },
    events: readonly NewEvent[],
  ): Promise<boolean>;
  /** From `pending` or `approved` to `expired`. */
  expire(id: string, answer: GivenAnswer & { readonly decision: "expired" }): Promise<boolean>;
  /** From `approved` to `executing`. */
  claim(id: string, executor: LeaseHolder): Promise<boolean>;
  /** Of what the executor has claimed: that its handler is about to be entered. False: it has been taken away. */
  begin(id: string, executorId: string, at: Date): Promise<boolean>;
  /** From `executing` back to `approved`, only before it has begun. */
  release(id: string, executorId: string): Promise<boolean>;
  /** From `executing` to `expired`, only before it has begun: what was agreed to is not what would run now. */
  void(id: string, executorId: string, answer: GivenAnswer & { readonly decision: "expired" }): Promise<boolean>;
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
  recorded(id: string): Promise<void>;
  /** The caller has been given the outcome. Answers whether this was the first time. */
  deliver(id: string): Promise<boolean>;
  renew(executorId: string, leaseUntil: Date): Promise<void>;
  /** What processes have claimed and not ended, and what is done or interrupted and not known to be in the ledger. */
  claimed(): Promise<readonly Claimed[]>;
  /** Over, delivered or not, and older than that. Answers how many were removed. */
  prune(before: Date): Promise<number>;
}
