import type { Caller } from "../core/caller.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { MaskedSecret } from "../core/known-secret.ts";
import type { Outcome } from "../core/outcome.ts";

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
  readonly answer?: GivenAnswer;
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
export interface GivenAnswer {
  readonly decision: "approved" | "denied" | "expired";
  readonly by: string;
  readonly via: string;
  readonly at: string;
  readonly reason?: string;
}

/** An approval as people are shown it: exactly what would run, without what only the program needs. */
export type ShownApproval = Omit<Approval, "args" | "outcome" | "delivered" | "executor" | "caller"> & {
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
export function isOver({ state }: Pick<Approval, "state">): boolean {
  return state === "denied" || state === "expired" || state === "done" || state === "interrupted";
}

/** So much of a reason is kept and shown, in characters. */
export const REASON_LIMIT = 500;

/** Why it is over, with the answer it had: that is not lost with it. */
export function overWith(answer: GivenAnswer | undefined, why: string): string {
  return answer === undefined ? why : `${answer.by} had agreed to it (${answer.via}), but ${why}`;
}
