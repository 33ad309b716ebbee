import { QmError } from "../core/errors.ts";
import type { ActionName } from "../core/names.ts";
import { failedOutcome, type Outcome, VALUE_LIMIT, type WaitingApproval, waitingOutcome } from "../core/outcome.ts";
import type { Approval } from "./approval.ts";

/** What became of the call, as its caller is told: `waiting` while it can still run. */
export function outcomeOf(approval: Approval): Outcome {
  if (approval.state === "done" && approval.outcome !== undefined) return approval.outcome;
  const action = approval.action as ActionName;
  const ending = { callId: approval.callId, durationMs: 0, valueLimit: VALUE_LIMIT, action };
  const error = errorOf(approval);
  if (error !== undefined) return failedOutcome(ending, error);
  return waitingOutcome(ending, action, approval.reason, waitingOf(approval));
}

/** Without what it would do, which may be made of values that the caller's model has not seen. */
export function waitingOf({ id, level, expiresAt }: Approval): WaitingApproval {
  return { id, level, expiresAt };
}

/** Whether whoever ran it, or cleared up after them, writes the end of the call into the ledger. */
export function isEndWritten({ state, answer }: Approval): boolean {
  return state === "done" || state === "interrupted" || answer?.via === "resume";
}

function errorOf({ id, action, state, answer }: Approval): QmError | undefined {
  const details = { approval_id: id, action };
  switch (state) {
    case "denied":
      return new QmError("tool_denied", `${answer?.by ?? "Somebody"} denied this call${because(answer?.reason)}`, {
        hint: "It was not run. Do not try to do the same in another way; ask the user how to go on.",
        details,
      });
    case "expired":
      return new QmError("approval_expired", `the question about this call is over${because(answer?.reason)}`, {
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

function because(reason: string | undefined): string {
  return reason === undefined ? "" : `: ${reason}`;
}
