import type { Caller } from "../core/caller.ts";
import { type ErrorCode, QmError } from "../core/errors.ts";
import { type Json, omitUndefined } from "../core/json.ts";
import type { ActionName } from "../core/names.ts";
import { createFailedOutcome, type Outcome } from "../core/outcome.ts";
import { findTokens } from "../distribution/anchor-token.ts";
import { toDoneOutcome } from "../invoke/result.ts";
import type { ModelUsage, UsageTotals } from "../policy/budget.ts";

export interface RecordedCall {
  readonly callId: string;
  /** When it was received, ISO 8601. */
  readonly at: string;
  readonly caller: Caller;
  /** The name as the caller wrote it. */
  readonly asked: string;
  readonly via: string;
  readonly args: unknown;
  /** The arguments with handles resolved. Absent: they held no handles. */
  readonly filledArgs?: unknown;
  /** The call inside which it was made. */
  readonly parent?: string;
  /** Empty: it ended before. Several: a resumed call was decided again. */
  readonly decisions: readonly RecordedDecision[];
  readonly approval?: RecordedApproval;
  /** The usage of its requests to language models, in order. Absent: it made none. */
  readonly modelUsages?: readonly ModelUsage[];
  /** Absent: it waits for a person, or the process ended while it ran. */
  readonly end?: RecordedEnd;
  /** Describes the redacted parts that could change the decision. */
  readonly lacks?: string;
}

export interface RecordedDecision {
  readonly action: string;
  readonly definition: string;
  readonly decision: "allow" | "ask" | "deny";
  readonly layer?: string;
  readonly rule?: string;
  readonly policyVersion: string;
  /** The usage of the budget accounts at that time. */
  readonly usage: ReadonlyMap<string, UsageTotals>;
}

export interface RecordedApproval {
  readonly id: string;
  readonly answer?: { readonly decision: "approved" | "denied"; readonly by: string; readonly reason?: string };
  readonly expired?: string;
  readonly resumed: boolean;
  readonly interrupted: boolean;
}

export interface RecordedEnd {
  readonly status: "done" | "failed" | "refused";
  readonly code?: ErrorCode;
  readonly reason?: string;
  readonly durationMs: number;
  readonly bytes: number;
  readonly result: Json;
  /** Whether `result` lacks parts of the original. */
  readonly isPartial: boolean;
  /** The earlier call whose result this one got: the same call was asked for twice. */
  readonly ranAs?: string;
}

/** Error codes of a call that was decided but did not run. */
const NOT_RUN: readonly ErrorCode[] = ["approval_expired", "budget_exceeded", "tool_denied"];

/** Whether the handler was entered, as far as the ledger shows. */
export function hasRun({ decisions, approval, end, modelUsages }: RecordedCall): boolean {
  // Its budget may have been used up by a request to a language model, after the handler was entered.
  if (modelUsages !== undefined) return true;
  const last = decisions.at(-1);
  if (last === undefined || last.decision === "deny") return false;
  if (last.decision === "ask" && approval?.resumed !== true) return false;
  return end?.code === undefined || !NOT_RUN.includes(end.code);
}

/** How the call or its approval ended. Undefined: it still waits, or the end is unknown. */
export function resolveEnd(call: RecordedCall): Pick<RecordedEnd, "status" | "code" | "reason"> | undefined {
  const { end, approval } = call;
  if (end !== undefined || approval === undefined) return end;
  const { answer, expired, interrupted } = approval;
  if (interrupted) return { status: "failed", code: "interrupted" };
  if (answer?.decision === "denied")
    return { status: "refused", code: "tool_denied", ...omitUndefined({ reason: answer.reason }) };
  return expired === undefined ? undefined : { status: "refused", code: "approval_expired", reason: expired };
}

type OutcomeBase = { readonly callId: string; readonly action: ActionName; readonly valueLimit: number };

/** The recorded outcome, for a call that is not run. */
export function restoreOutcome(call: RecordedCall, base: OutcomeBase): Outcome | undefined {
  const end = resolveEnd(call);
  if (end === undefined) return undefined;
  const known = { ...base, durationMs: call.end?.durationMs ?? 0 };
  return end.status === "done"
    ? toDoneOutcome(known, base.action, { data: call.end?.result ?? null })
    : createFailedOutcome(known, restoreError(end));
}

export function restoreError({ code = "internal", reason }: Pick<RecordedEnd, "code" | "reason">): QmError {
  return new QmError(code, reason || "no reason was recorded");
}

/** The marks that the redactor leaves, as the whole text or inside it. */
const MARK =
  /\[redacted\]|\[cut: \d+ (?:characters in all|more)\]|^\[(?:too deep|cycle|unreadable|function|symbol|bigint|\d+ bytes)\]$/;

/** Whether parts of a recorded value were redacted. */
export function isAltered(value: unknown): boolean {
  return hasText(value, (text) => MARK.test(text));
}

/** Whether a value holds anchor tokens in place of values that the model did not see. */
export function hasTokens(value: unknown): boolean {
  return hasText(value, (text) => findTokens(text).length > 0);
}

function hasText(value: unknown, matches: (text: string) => boolean): boolean {
  const open: unknown[] = [value];
  while (open.length > 0) {
    const next = open.pop();
    if (typeof next === "string") {
      if (matches(next)) return true;
    } else if (typeof next === "object" && next !== null) {
      for (const [key, part] of Object.entries(next)) open.push(key, part);
    }
  }
  return false;
}
