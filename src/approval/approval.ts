import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { MaskedSecret } from "../core/known-secret.ts";
import type { ActionName } from "../core/names.ts";
import {
  createFailedOutcome,
  createWaitingOutcome,
  type Outcome,
  VALUE_LIMIT,
  type WaitingApproval,
} from "../core/outcome.ts";

export const approvalStates = ["pending", "approved", "denied", "expired", "executing", "done", "interrupted"] as const;

/**
 * - `pending`: nobody has answered yet
 * - `approved`: somebody agreed, and it has not been run; whoever claims it first runs it
 * - `denied`: somebody said no; it is never run
 * - `expired`: nobody answered in time, or what was agreed to is not what would run now; it is never run
 * - `executing`: one process has claimed it
 * - `done`: it ran, well or not, and `outcome` says how
 * - `interrupted`: it began, and the process that ran it is gone: it may have had its effect, and is not run again
 */
export type ApprovalState = (typeof approvalStates)[number];

/** A person's single-use decision about one exact call, from the question to the outcome. */
export interface Approval {
  readonly id: string;
  /** The call it was first asked for. Who asks for the same while it waits may be the one that runs it. */
  readonly callId: string;
  readonly state: ApprovalState;
  readonly action: string;
  /** Fingerprint of the action's definition, as it was when the question was put. */
  readonly definition: string;
  /** Valid, and with everything filled in: exactly what would run. */
  readonly args: JsonObject;
  readonly caller: Caller;
  /** The surface the call came through. */
  readonly via: string;
  readonly policyVersion: string;
  /** Hash of action, definition, canonical arguments, caller and policy version. */
  readonly binding: string;
  /** Who must agree. */
  readonly level: string;
  /** Which rule asked, for operators. */
  readonly rule: string;
  /** Why a person is asked, as the caller is told it. */
  readonly reason: string;
  /** What exactly running it would do, where the arguments do not say it all. */
  readonly preview?: string;
  readonly requestedAt: string;
  readonly expiresAt: string;
  /** The answer that counted, or why there can be none any more. */
  readonly answer?: RecordedAnswer;
  /** Which process runs it or ran it. */
  readonly executor?: string;
  /** When its handler was about to be entered; absent: it certainly has not run. */
  readonly begunAt?: string;
  readonly endedAt?: string;
  /** How it ended, once it ran. */
  readonly status?: Outcome["status"];
  readonly outcome?: Outcome;
  /** Whether the caller has been given the outcome. */
  readonly delivered: boolean;
}

/** Who answers, as the channel that heard them knows it. */
export interface Approver {
  readonly id: string;
  readonly roles: readonly string[];
  /** `cli`, `http`, `link`, `elicitation`, `library`, ... */
  readonly via: string;
}

export interface ApprovalAnswer {
  readonly decision: "approved" | "denied";
  /** Told to the caller, and written down. */
  readonly reason?: string;
}

/** An answer as it is kept. */
export interface RecordedAnswer {
  readonly decision: "approved" | "denied" | "expired";
  readonly by: string;
  readonly via: string;
  readonly at: string;
  readonly reason?: string;
}

/** An approval as people are shown it: exactly what would run, without what only the program needs. */
export type ApprovalView = Omit<Approval, "args" | "outcome" | "delivered" | "executor" | "caller"> & {
  /** Exact, but for the secrets that `masked` names. */
  readonly args: Json;
  /** Known secrets that stand as `[secret NAME]` in `args` and `preview`. Any other such text is the caller's own. */
  readonly masked: readonly MaskedSecret[];
  /** What a reader could overlook: characters that cannot be seen or pass for others, text that looks like a mask. */
  readonly warnings: readonly string[];
  readonly actor: string;
  readonly session: string;
  readonly turn?: string;
  readonly tenant?: string;
  readonly user?: string;
  readonly person?: string;
};

export interface ApprovalQuery {
  readonly state?: ApprovalState | readonly ApprovalState[];
  readonly session?: string;
  readonly turn?: string;
  readonly actor?: string;
  readonly tenant?: string;
  /** The id of the user for whom the call was made. */
  readonly user?: string;
  readonly action?: string;
  /** Only those requested after the one with this id. */
  readonly after?: string;
  /** At most so many, oldest first. Absent: 100. */
  readonly limit?: number;
}

/** Whether nothing can happen to it any more. */
export function isFinished({ state }: Pick<Approval, "state">): boolean {
  return state === "denied" || state === "expired" || state === "done" || state === "interrupted";
}

/** So much of a reason is kept and shown, in characters. */
export const REASON_LIMIT = 500;

/** Why it is over, with the answer it had: that is not lost with it. */
export function formatExpiryReason(answer: RecordedAnswer | undefined, why: string): string {
  return answer === undefined ? why : `${answer.by} had agreed to it (${answer.via}), but ${why}`;
}

/** Calls that wait for a person, for whoever shows them and hears the answer. */
export interface Approvals {
  /** Oldest first, with known secrets masked. What nobody answered in time is `expired` by then. */
  list(query?: ApprovalQuery): Promise<readonly ApprovalView[]>;
  /** Throws `not_found`. */
  get(id: string): Promise<ApprovalView>;
  /**
   * Shows a call with its secrets, to somebody who may approve it. Writes down who saw which of them. Throws `not_found`,
   * and `denied` as `answer` does.
   */
  reveal(id: string, approver: Approver): Promise<ApprovalView>;
  /**
   * Takes a person's answer. The first one counts: after it, `conflict` says who gave it. Throws `not_found`,
   * `approval_expired`, and `denied` where the approver has not the role or is who asked. Every attempt is written down.
   */
  answer(id: string, answer: ApprovalAnswer, approver: Approver): Promise<ApprovalView>;
  /** Takes a call back that has not begun to run, for the caller who made it. Throws as `answer` does. */
  withdraw(id: string, caller: Caller, reason?: string): Promise<ApprovalView>;
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
  onChange(listener: (approval: ApprovalView) => void): () => void;
}

/** What people are asked by: answers, or leaves the question to others with `undefined`. Without roles it is a user. */
export type AskPerson = (
  approval: ApprovalView,
  signal: AbortSignal,
) => Promise<(ApprovalAnswer & { readonly by: string; readonly roles?: readonly string[] }) | undefined>;

/** What became of the call, as its caller is told: `waiting` while it can still run. */
export function toApprovalOutcome(approval: Approval): Outcome {
  if (approval.state === "done" && approval.outcome !== undefined) return approval.outcome;
  const action = approval.action as ActionName;
  const ending = { callId: approval.callId, durationMs: 0, valueLimit: VALUE_LIMIT, action };
  const error = toApprovalError(approval);
  if (error !== undefined) return createFailedOutcome(ending, error);
  return createWaitingOutcome(ending, action, approval.reason, toWaitingApproval(approval));
}

/** Without what it would do, which may be made of values that the caller's model has not seen. */
export function toWaitingApproval({ id, level, expiresAt }: Approval): WaitingApproval {
  return { id, level, expiresAt };
}

/** Whether whoever ran it, or cleared up after them, writes the end of the call into the ledger. */
export function isEndRecorded({ state, answer }: Approval): boolean {
  return state === "done" || state === "interrupted" || answer?.via === "resume";
}

function toApprovalError({ id, action, state, answer }: Approval): QmError | undefined {
  const details = { approval_id: id, action };
  switch (state) {
    case "denied":
      return new QmError(
        "tool_denied",
        `${answer?.by ?? "Somebody"} denied this call${formatBecause(answer?.reason)}`,
        {
          hint: "It was not run. Do not try to do the same in another way; ask the user how to go on.",
          details,
        },
      );
    case "expired":
      return new QmError("approval_expired", `the question about this call is over${formatBecause(answer?.reason)}`, {
        hint: "It was not run. Call it again if it is still wanted; a person is asked anew.",
        details,
      });
    case "interrupted":
      return new QmError("interrupted", `${action} began, and the process that ran it ended before it did`, {
        hint: "It may have had its effect: look before anything is tried again.",
        details,
      });
    default:
      return undefined;
  }
}

function formatBecause(reason: string | undefined): string {
  return reason === undefined ? "" : `: ${reason}`;
}
