import type { Caller } from "../core/caller.ts";
import type { ErrorCode } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { OutcomeStatus } from "../core/outcome.ts";
import type { RecordedApproval, RecordedCall, RecordedDecision } from "./recorded-call.ts";

/** A call and what came of it, for whoever rehearses it. */
export interface ScriptedCall {
  /** The action's name, or another spelling that leads to it. */
  readonly name: string;
  /** Where the ledger has left something out of a text, any text fits. */
  readonly args?: unknown;
  /** With what handles led to in their place, where there were any. */
  readonly filledArgs?: unknown;
  readonly outcome: ScriptedOutcome;
  /** Who agreed to it, where a person was asked. */
  readonly approvedBy?: string;
}

export type ScriptedOutcome =
  /** The result as it was written down; it need not be of the form that the action declares. */
  | { readonly status: "done"; readonly data: unknown }
  | { readonly status: "failed" | "refused"; readonly error: { readonly code: ErrorCode; readonly error: string } }
  | { readonly status: "waiting" };

/** A call that was made in a rehearsal. */
export interface RehearsedCall {
  readonly callId: string;
  /** As it was written. */
  readonly asked: string;
  /** What it was taken for. Absent: for nothing. */
  readonly action?: string;
  readonly args: unknown;
  readonly status: OutcomeStatus;
  readonly code?: ErrorCode;
  /** False: it would have run, and the script has nothing to answer it with. */
  readonly isScripted: boolean;
}

/** What only a person's answer, or the lack of one, can lead to. */
const AFTER_ASKING: ReadonlySet<ErrorCode> = new Set(["approval_expired", "interrupted", "tool_denied"]);
/** What only the policy can lead to. */
const DENIED: ReadonlySet<ErrorCode> = new Set(["denied", "unknown_actor"]);

/** A call of a script in the form that the ledger's calls have. */
export function toRecordedCall(call: ScriptedCall, caller: Caller): RecordedCall {
  const { name, args, outcome, approvedBy } = call;
  const decision = inferDecision(outcome, approvedBy);
  const decided = { action: name, definition: "", policyVersion: "", usage: new Map(), decision };
  return {
    callId: "",
    at: "",
    caller,
    asked: name,
    via: "",
    args,
    decisions: [decided],
    ...(decision === "ask" ? { approval: inferApproval(approvedBy) } : {}),
    ...(outcome.status === "waiting" ? {} : { end: toRecordedEnd(outcome) }),
  };
}

function inferDecision(outcome: ScriptedOutcome, approvedBy: string | undefined): RecordedDecision["decision"] {
  if (approvedBy !== undefined || outcome.status === "waiting") return "ask";
  if (outcome.status === "done") return "allow";
  if (AFTER_ASKING.has(outcome.error.code)) return "ask";
  return DENIED.has(outcome.error.code) ? "deny" : "allow";
}

function inferApproval(approvedBy: string | undefined): RecordedApproval {
  if (approvedBy === undefined) return { id: "", resumed: false, interrupted: false };
  return { id: "", answer: { decision: "approved", by: approvedBy }, resumed: true, interrupted: false };
}

function toRecordedEnd(
  outcome: Exclude<ScriptedOutcome, { readonly status: "waiting" }>,
): NonNullable<RecordedCall["end"]> {
  const known = { durationMs: 0, bytes: 0 };
  if (outcome.status !== "done") {
    const { code, error: reason } = outcome.error;
    return { ...known, status: outcome.status, code, reason, result: null, isPartial: false };
  }
  return { ...known, status: "done", result: outcome.data as Json, isPartial: true };
}
