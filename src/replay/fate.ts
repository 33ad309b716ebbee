import { type ErrorCode, QmError } from "../core/errors.ts";
import type { ActionName } from "../core/names.ts";
import { failedOutcome, type Outcome } from "../core/outcome.ts";
import { doneOutcome } from "../invoke/outcome.ts";
import type { RecordedCall, RecordedEnd } from "./recorded.ts";

/** What a call comes to that got as far as a decision, was let through, and still did not run. */
const NOT_RUN: ReadonlySet<ErrorCode> = new Set(["approval_expired", "budget_exceeded", "tool_denied"]);

/** Whether the handler was entered then, as far as the ledger can tell. */
export function ranThen({ decisions, approval, end }: RecordedCall): boolean {
  const last = decisions.at(-1);
  if (last === undefined || last.decision === "deny") return false;
  if (last.decision === "ask" && approval?.resumed !== true) return false;
  return end?.code === undefined || !NOT_RUN.has(end.code);
}

/** Whether a person was to be asked. */
export function askedThen({ decisions: [first] }: RecordedCall): boolean {
  return first?.decision === "ask";
}

/** How a call ended, or, where it waited for a person, what became of that. Undefined: it waits, or nobody knows. */
export function endOf({ end, approval }: RecordedCall): Pick<RecordedEnd, "status" | "code" | "reason"> | undefined {
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
export function outcomeThen(
  call: RecordedCall,
  ending: { readonly callId: string; readonly action: ActionName; readonly valueLimit: number },
): Outcome | undefined {
  const end = endOf(call);
  if (end === undefined) return undefined;
  const known = { ...ending, durationMs: call.end?.durationMs ?? 0 };
  return end.status === "done"
    ? doneOutcome(known, ending.action, { data: call.end?.result ?? null })
    : failedOutcome(known, problemThen(end));
}

/** The error that a call ended with. */
export function problemThen({ code = "internal", reason = "" }: Pick<RecordedEnd, "code" | "reason">): QmError {
  return new QmError(code, reason === "" ? "no reason was recorded" : reason);
}
