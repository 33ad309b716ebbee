import type { Caller } from "../core/caller.ts";
import type { Outcome } from "../core/outcome.ts";
import type { ApprovalAnswer, ApprovalQuery, Approver, ShownApproval } from "./approval.ts";

/** Calls that wait for a person, for whoever shows them and hears the answer. */
export interface Approvals {
  /** Oldest first, with known secrets masked. What nobody answered in time is `expired` by then. */
  list(query?: ApprovalQuery): Promise<readonly ShownApproval[]>;
  /** Throws `not_found`. */
  get(id: string): Promise<ShownApproval>;
  /**
   * Shows a call with its secrets, to somebody who may approve it. Writes down who saw which of them. Throws `not_found`,
   * and `denied` as `answer` does.
   */
  reveal(id: string, approver: Approver): Promise<ShownApproval>;
  /**
   * Takes a person's answer. The first one counts: after it, `conflict` says who gave it. Throws `not_found`,
   * `approval_expired`, and `denied` where the approver has not the role or is who asked. Every attempt is written down.
   */
  answer(id: string, answer: ApprovalAnswer, approver: Approver): Promise<ShownApproval>;
  /** Takes a call back that has not begun to run, for the caller who made it. Throws as `answer` does. */
  withdraw(id: string, caller: Caller, reason?: string): Promise<ShownApproval>;
  /**
   * Waits until the call has run or can run no more, and answers its outcome; a `waiting` one when the time is up first.
   * Whoever made the call has been given it then: the same call is a new one. Throws `not_found`, also for what is not the
   * given caller's.
   */
  outcome(
    id: string,
    options?: { readonly caller?: Caller; readonly signal?: AbortSignal; readonly timeoutMs?: number },
  ): Promise<Outcome>;
  /** The same for somebody who only looks: the caller has not been given it, and of a result a model's view is shown. */
  look(id: string, options?: { readonly signal?: AbortSignal; readonly timeoutMs?: number }): Promise<Outcome>;
  /** Runs what is approved and not claimed, as far as its actions are known here; one, or all. Answers how many it ran. */
  run(id?: string): Promise<number>;
  /** Calls back when an approval has changed, here or in another process, until the returned function is called. */
  onChange(listener: (approval: ShownApproval) => void): () => void;
}

/** What people are asked by: answers, or leaves the question to others with `undefined`. Without roles it is a user. */
export type AskPerson = (
  approval: ShownApproval,
  signal: AbortSignal,
) => Promise<(ApprovalAnswer & { readonly by: string; readonly roles?: readonly string[] }) | undefined>;
