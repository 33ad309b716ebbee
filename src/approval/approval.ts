import type { Caller, FlatCaller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { FileDigest } from "../core/file-digest.ts";
import { clip, type Json, type JsonObject } from "../core/json.ts";
import type { MaskedSecret } from "../core/known-secret.ts";
import type { ActionName } from "../core/names.ts";
import {
  createFailedOutcome,
  createWaitingOutcome,
  type Outcome,
  VALUE_LIMIT,
  type WaitingApproval,
} from "../core/outcome.ts";
import type { FilePortion, FilePortionOptions } from "./file-portion.ts";

export const approvalStates = ["pending", "approved", "denied", "expired", "executing", "done", "interrupted"] as const;

/**
 * - `pending`: not answered yet
 * - `approved`: a person approved it; the first process to claim it runs it
 * - `denied`: a person denied it; it never runs
 * - `expired`: not answered in time, or the approved call is not what would run now; it never runs
 * - `executing`: one process has claimed it
 * - `done`: it ran; `outcome` tells the result
 * - `interrupted`: it started and its process is gone. It may have taken effect, and is not run again
 */
export type ApprovalState = (typeof approvalStates)[number];

/** A person's single-use decision about one exact call, from the question to the outcome. */
export interface Approval {
  readonly id: string;
  readonly callId: string;
  /** The call whose handler made this one. Repeating that call gets the outcome of this one. */
  readonly parent?: string;
  /** The method around this call. */
  readonly method?: string;
  readonly state: ApprovalState;
  readonly action: string;
  readonly definition: string;
  /** Validated and with defaults filled in: exactly what would run. */
  readonly args: JsonObject;
  readonly caller: Caller;
  readonly via: string;
  readonly policyVersion: string;
  /** Hash of action, definition, canonical arguments, caller and policy version. */
  readonly binding: string;
  readonly level: string;
  readonly rule: string;
  readonly reason: string;
  /** Exactly what would run, if the arguments do not tell it all. */
  readonly preview?: string;
  /** The files that would be used. `readFiles` shows them. */
  readonly files?: readonly FileDigest[];
  readonly requestedAt: string;
  readonly expiresAt: string;
  readonly answer?: RecordedAnswer;
  readonly executor?: string;
  /** Set just before its handler is called. Absent: it certainly has not run. */
  readonly begunAt?: string;
  readonly endedAt?: string;
  readonly status?: Outcome["status"];
  readonly outcome?: Outcome;
  readonly delivered: boolean;
}

export interface Approver {
  readonly id: string;
  readonly roles: readonly string[];
  /** `cli`, `http`, `link`, `elicitation`, `library`, ... */
  readonly via: string;
}

export type ApprovalAnswer = { readonly decision: "approved" | "denied"; readonly reason?: string };

export interface RecordedAnswer {
  readonly decision: "approved" | "denied" | "expired";
  readonly by: string;
  readonly via: string;
  readonly at: string;
  readonly reason?: string;
}

/** An approval as people see it: exactly what would run, without internal fields. */
export interface ApprovalView
  extends Omit<Approval, "args" | "outcome" | "delivered" | "executor" | "caller">,
    FlatCaller {
  readonly args: Json;
  /** Known secrets shown as `[secret NAME]` in `args` and `preview`. Any other such text is the caller's own. */
  readonly masked: readonly MaskedSecret[];
  /** Easily overlooked: invisible characters, look-alikes, text that looks like a mask. */
  readonly warnings: readonly string[];
}

export interface ApprovalQuery {
  readonly state?: ApprovalState | readonly ApprovalState[];
  readonly session?: string;
  readonly turn?: string;
  readonly actor?: string;
  readonly tenant?: string;
  readonly user?: string;
  readonly action?: string;
  readonly after?: string;
  /** Oldest first. Default: 100. */
  readonly limit?: number;
}

export const isFinished = ({ state }: Pick<Approval, "state">): boolean =>
  state === "denied" || state === "expired" || state === "done" || state === "interrupted";
export const REASON_LIMIT = 500;

export function toReason(reason: string | undefined): { readonly reason?: string } {
  const text = reason?.trim() ?? "";
  return text === "" ? {} : { reason: clip(text, REASON_LIMIT) };
}

export const formatExpiryReason = (answer: RecordedAnswer | undefined, why: string): string =>
  answer === undefined ? why : `${answer.by} had approved it (${answer.via}), but ${why}`;

/** Calls that wait for a person, for a program that shows them and takes the answers. */
export interface Approvals {
  /** Oldest first, with known secrets masked. Expires late questions first. */
  list(query?: ApprovalQuery): Promise<readonly ApprovalView[]>;
  /** Throws `not_found`. */
  get(id: string): Promise<ApprovalView>;
  /** A portion of the files that a call would use, to be shown before anyone approves it. Throws `not_found`. */
  readFiles(id: string, options?: FilePortionOptions): Promise<FilePortion>;
  /** Shows a call with its secrets to an approver, and records that. Throws `not_found` and `denied`. */
  reveal(id: string, approver: Approver): Promise<ApprovalView>;
  /**
   * Answers a question. The first answer counts; a later one throws `conflict` with the first. Throws `not_found`,
   * `approval_expired`, and `denied` if the approver lacks the role or is the caller. Every attempt is recorded.
   */
  answer(id: string, answer: ApprovalAnswer, approver: Approver): Promise<ApprovalView>;
  /** Withdraws a call that has not started, for its caller. Throws as `answer` does. */
  withdraw(id: string, caller: Caller, reason?: string): Promise<ApprovalView>;
  /** Delivers the outcome of a call, or `waiting` at the timeout. Throws `not_found`, also for other callers. */
  outcome(id: string, options?: { caller?: Caller; signal?: AbortSignal; timeoutMs?: number }): Promise<Outcome>;
  /** Like `outcome`, for an observer: not delivered to the caller, and with the data a model would see. */
  look(id: string, options?: { caller?: Caller; signal?: AbortSignal; timeoutMs?: number }): Promise<Outcome>;
  /** Runs one approved call, or all whose actions are known here. Returns how many ran. */
  run(id?: string): Promise<number>;
  /** Calls back when an approval changes, in any process. Returns a function that stops it. */
  onChange(listener: (approval: ApprovalView) => void): () => void;
}

/** Asks a person. Resolves to undefined to leave the question to other channels. Default role: user. */
export type AskPerson = (
  approval: ApprovalView,
  signal: AbortSignal,
) => Promise<(ApprovalAnswer & { readonly by: string; readonly roles?: readonly string[] }) | undefined>;

/** The outcome for the caller: `waiting` while it can still run. */
export function toApprovalOutcome(approval: Approval): Outcome {
  if (approval.state === "done" && approval.outcome !== undefined) return approval.outcome;
  const action = approval.action as ActionName;
  const ending = { callId: approval.callId, durationMs: 0, valueLimit: VALUE_LIMIT, action };
  const error = toApprovalError(approval);
  if (error !== undefined) return createFailedOutcome(ending, error);
  return createWaitingOutcome(ending, action, { reason: approval.reason, approval: toWaitingApproval(approval) });
}

/** Omits the preview, which may hold values that the caller's model has not seen. */
export const toWaitingApproval = ({ id, level, expiresAt }: Approval): WaitingApproval => ({ id, level, expiresAt });

/** Whether the process that ran it, or the one that cleaned up, records the end of the call. */
export const isEndRecorded = ({ state, answer }: Approval): boolean =>
  state === "done" || state === "interrupted" || answer?.via === "resume";

function toApprovalError({ id, action, state, answer }: Approval): QmError | undefined {
  const details = { approval_id: id, action };
  const because = answer?.reason === undefined ? "" : `: ${answer.reason}`;
  if (state === "denied") {
    const hint = "It was not run. Do not try to do the same in another way; ask the user how to go on.";
    return new QmError("tool_denied", `${answer?.by ?? "a person"} denied this call${because}`, { hint, details });
  }
  if (state === "expired") {
    const hint = "It was not run. If it is still wanted, call it again; a person is then asked again.";
    return new QmError("approval_expired", `the approval of this call has expired${because}`, { hint, details });
  }
  if (state !== "interrupted") return undefined;
  const hint = "It may have taken effect: check before you try again.";
  return new QmError("interrupted", `${action} started, but its process ended before it finished`, { hint, details });
}
