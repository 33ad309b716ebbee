import type { Caller } from "../core/caller.ts";
import type { ErrorCode } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { OutcomeStatus } from "../core/outcome.ts";
import type { RecordedApproval, RecordedCall, RecordedDecision, RecordedEnd } from "./recorded-call.ts";

/** A call of a rehearsal script and its outcome. */
export interface ScriptedCall {
  /** The name of the action, or another spelling of it. */
  readonly name: string;
  /** A redacted text matches any text. */
  readonly args?: unknown;
  /** The arguments with handles resolved, if they held any. */
  readonly filledArgs?: unknown;
  readonly outcome: ScriptedOutcome;
  /** The person who approved it, if one was asked. */
  readonly approvedBy?: string;
}

export type ScriptedOutcome =
  /** The result as recorded; it need not match the output schema of the action. */
  | { readonly status: "done"; readonly data: unknown }
  | { readonly status: "failed" | "refused"; readonly error: { readonly code: ErrorCode; readonly error: string } }
  | { readonly status: "waiting" };

/** A call that was made in a rehearsal. */
export interface RehearsedCall {
  readonly callId: string;
  /** The name as it was written. */
  readonly asked: string;
  /** Absent: the name is unknown. */
  readonly action?: string;
  readonly args: unknown;
  readonly status: OutcomeStatus;
  readonly code?: ErrorCode;
  /** False: it would have run, but is not in the script. */
  readonly isScripted: boolean;
}

/** Converts a scripted call to the form of recorded calls. */
export function toRecordedCall({ name, args, outcome, approvedBy }: ScriptedCall, caller: Caller): RecordedCall {
  const decision = inferDecision(outcome, approvedBy);
  return {
    callId: "",
    at: "",
    caller,
    asked: name,
    via: "",
    args,
    decisions: [{ action: name, definition: "", policyVersion: "", usage: new Map(), decision }],
    ...(decision === "ask" ? { approval: inferApproval(approvedBy) } : {}),
    ...(outcome.status === "waiting" ? {} : { end: toRecordedEnd(outcome) }),
  };
}

/** Error codes that only the answer of a person, or the lack of one, leads to. */
const AFTER_ASKING: readonly ErrorCode[] = ["approval_expired", "interrupted", "tool_denied"];
/** Error codes that only the policy leads to. */
const DENIED: readonly ErrorCode[] = ["denied", "unknown_actor"];

function inferDecision(outcome: ScriptedOutcome, approvedBy: string | undefined): RecordedDecision["decision"] {
  if (approvedBy !== undefined || outcome.status === "waiting") return "ask";
  if (outcome.status === "done") return "allow";
  if (AFTER_ASKING.includes(outcome.error.code)) return "ask";
  return DENIED.includes(outcome.error.code) ? "deny" : "allow";
}

function inferApproval(approvedBy: string | undefined): RecordedApproval {
  if (approvedBy === undefined) return { id: "", resumed: false, interrupted: false };
  return { id: "", answer: { decision: "approved", by: approvedBy }, resumed: true, interrupted: false };
}

function toRecordedEnd(outcome: Exclude<ScriptedOutcome, { readonly status: "waiting" }>): RecordedEnd {
  const known = { durationMs: 0, bytes: 0 };
  if (outcome.status === "done") return { ...known, status: "done", result: outcome.data as Json, isPartial: true };
  const { code, error: reason } = outcome.error;
  return { ...known, status: outcome.status, code, reason, result: null, isPartial: false };
}
