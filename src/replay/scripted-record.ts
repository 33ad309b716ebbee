import type { Caller } from "../core/caller.ts";
import type { ErrorCode } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { RecordedApproval, RecordedCall, RecordedDecision } from "./recorded.ts";
import type { ScriptedCall, ScriptedOutcome } from "./scripted.ts";

/** What only a person's answer, or the lack of one, can lead to. */
const AFTER_ASKING: ReadonlySet<ErrorCode> = new Set(["approval_expired", "interrupted", "tool_denied"]);
/** What only the policy can lead to. */
const DENIED: ReadonlySet<ErrorCode> = new Set(["denied", "unknown_actor"]);

/** A call of a script in the form that the ledger's calls have. */
export function scriptedAsRecorded(call: ScriptedCall, caller: Caller): RecordedCall {
  const { name, args, outcome, approvedBy } = call;
  const decision = decisionThen(outcome, approvedBy);
  const decided = { action: name, definition: "", policyVersion: "", usage: new Map(), decision };
  return {
    callId: "",
    at: "",
    caller,
    asked: name,
    via: "",
    args,
    decisions: [decided],
    ...(decision === "ask" ? { approval: approvalThen(approvedBy) } : {}),
    ...(outcome.status === "waiting" ? {} : { end: endThen(outcome) }),
  };
}

function decisionThen(outcome: ScriptedOutcome, approvedBy: string | undefined): RecordedDecision["decision"] {
  if (approvedBy !== undefined || outcome.status === "waiting") return "ask";
  if (outcome.status === "done") return "allow";
  if (AFTER_ASKING.has(outcome.error.code)) return "ask";
  return DENIED.has(outcome.error.code) ? "deny" : "allow";
}

function approvalThen(approvedBy: string | undefined): RecordedApproval {
  if (approvedBy === undefined) return { id: "", resumed: false, interrupted: false };
  return { id: "", answer: { decision: "approved", by: approvedBy }, resumed: true, interrupted: false };
}

function endThen(outcome: Exclude<ScriptedOutcome, { readonly status: "waiting" }>): NonNullable<RecordedCall["end"]> {
  const known = { durationMs: 0, bytes: 0 };
  if (outcome.status !== "done") {
    const { code, error: reason } = outcome.error;
    return { ...known, status: outcome.status, code, reason, result: null, isPartial: false };
  }
  return { ...known, status: "done", result: outcome.data as Json, isPartial: true };
}
