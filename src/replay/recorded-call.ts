import type { Caller } from "../core/caller.ts";
import { type ErrorCode, QmError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { ActionName } from "../core/names.ts";
import { createFailedOutcome, type Outcome } from "../core/outcome.ts";
import { findTokens } from "../distribution/anchor-token.ts";
import { toDoneOutcome } from "../invoke/result.ts";
import type { UsageTotals } from "../policy/budget.ts";

/** One call as the ledger tells it. */
export interface RecordedCall {
  readonly callId: string;
  /** When it was received, ISO 8601. */
  readonly at: string;
  readonly caller: Caller;
  /** The name as the caller wrote it. */
  readonly asked: string;
  readonly via: string;
  readonly args: unknown;
  /** With what handles led to in their place. Absent: there were no handles in them. */
  readonly filledArgs?: unknown;
  /** The call that it was made in. */
  readonly parent?: string;
  /** None: it did not get as far. More than one: rights were decided again when it was resumed. */
  readonly decisions: readonly RecordedDecision[];
  readonly approval?: RecordedApproval;
  /** Absent: it waits for a person, or the process ended while it ran. */
  readonly end?: RecordedEnd;
  /** What was taken out of it before it was written, so that it may be decided differently: in words. */
  readonly lacks?: string;
}

export interface RecordedDecision {
  readonly action: string;
  readonly definition: string;
  readonly decision: "allow" | "ask" | "deny";
  readonly layer?: string;
  readonly rule?: string;
  readonly policyVersion: string;
  /** What was drawn on the accounts that budgets were held against. */
  readonly usage: ReadonlyMap<string, UsageTotals>;
}

/** What people said, as far as it went. */
export interface RecordedApproval {
  readonly id: string;
  readonly answer?: { readonly decision: "approved" | "denied"; readonly by: string; readonly reason?: string };
  /** Why nobody can agree any more. */
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
  /** Whether `result` is less than what was answered. */
  readonly isPartial: boolean;
  /** The call that ran in its place: the same was asked for twice. */
  readonly ranAs?: string;
}

/** What a call comes to that got as far as a decision, was let through, and still did not run. */
const NOT_RUN: ReadonlySet<ErrorCode> = new Set(["approval_expired", "budget_exceeded", "tool_denied"]);

/** Whether the handler was entered then, as far as the ledger can tell. */
export function hasRun({ decisions, approval, end }: RecordedCall): boolean {
  const last = decisions.at(-1);
  if (last === undefined || last.decision === "deny") return false;
  if (last.decision === "ask" && approval?.resumed !== true) return false;
  return end?.code === undefined || !NOT_RUN.has(end.code);
}

/** Whether a person was to be asked. */
export function hasAskedPerson({ decisions: [first] }: RecordedCall): boolean {
  return first?.decision === "ask";
}

/** How a call ended, or, where it waited for a person, what became of that. Undefined: it waits, or nobody knows. */
export function resolveEnd({
  end,
  approval,
}: RecordedCall): Pick<RecordedEnd, "status" | "code" | "reason"> | undefined {
  if (end !== undefined || approval === undefined) return end;
  const { answer, expired, interrupted } = approval;
  if (interrupted) return { status: "failed", code: "interrupted" };
  if (answer?.decision === "denied")
    return {
      status: "refused",
      code: "tool_denied",
      ...(answer.reason === undefined ? {} : { reason: answer.reason }),
    };
  return expired === undefined ? undefined : { status: "refused", code: "approval_expired", reason: expired };
}

/** What a call is told that is answered from the ledger without being run. */
export function restoreOutcome(
  call: RecordedCall,
  ending: { readonly callId: string; readonly action: ActionName; readonly valueLimit: number },
): Outcome | undefined {
  const end = resolveEnd(call);
  if (end === undefined) return undefined;
  const known = { ...ending, durationMs: call.end?.durationMs ?? 0 };
  return end.status === "done"
    ? toDoneOutcome(known, ending.action, { data: call.end?.result ?? null })
    : createFailedOutcome(known, restoreError(end));
}

/** The error that a call ended with. */
export function restoreError({ code = "internal", reason = "" }: Pick<RecordedEnd, "code" | "reason">): QmError {
  return new QmError(code, reason === "" ? "no reason was recorded" : reason);
}

/** What the redactor leaves where it took something out, whole or inside a text. */
const MARK =
  /\[redacted\]|\[cut: \d+ (?:characters in all|more)\]|^\[(?:too deep|cycle|unreadable|function|symbol|bigint|\d+ bytes)\]$/;

/** Whether a value from the ledger lacks something that was there when it was written. */
export function isAltered(value: unknown): boolean {
  return hasText(value, (text) => MARK.test(text));
}

/** Whether it holds tokens in place of values that the model was not shown. */
export function hasTokens(value: unknown): boolean {
  return hasText(value, (text) => findTokens(text).length > 0);
}

function hasText(value: unknown, is: (text: string) => boolean): boolean {
  const open: unknown[] = [value];
  while (open.length > 0) {
    const next = open.pop();
    if (typeof next === "string") {
      if (is(next)) return true;
    } else if (typeof next === "object" && next !== null) {
      for (const [key, part] of Object.entries(next)) open.push(key, part);
    }
  }
  return false;
}
