import { contentText } from "../core/content.ts";
import { type ErrorCode, messageOf, type Problem, QmError } from "../core/errors.ts";
import type { ActionName } from "../core/names.ts";
import { type Outcome, problemText, valueText } from "../core/outcome.ts";
import type { CheckedResult } from "./result.ts";

/** What is known of a call when it ends. */
export interface Ending {
  readonly callId: string;
  readonly durationMs: number;
  readonly valueLimit: number;
  /** Absent when the call did not get as far as an action. */
  readonly action: ActionName | undefined;
}

/** Not run because the caller may not; everything else that did not end well has failed. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set([
  "approval_required",
  "budget_exceeded",
  "denied",
  "quarantined",
  "unknown_actor",
]);

export function doneOutcome(
  { callId, durationMs, valueLimit }: Ending,
  action: ActionName,
  { data, content }: Pick<CheckedResult, "data" | "content">,
): Outcome {
  const ended = { status: "done", callId, durationMs, action, data } as const;
  if (content === undefined) return { ...ended, value: valueText(data, valueLimit) };
  return { ...ended, content, value: contentText(content.blocks, valueLimit) };
}

export function failedOutcome({ callId, durationMs, valueLimit, action }: Ending, thrown: unknown): Outcome {
  const known = thrown instanceof QmError ? thrown : new QmError("internal", messageOf(thrown));
  const error: Problem = known.toProblem();
  return {
    status: REFUSALS.has(error.code) ? "refused" : "failed",
    callId,
    durationMs,
    ...(action === undefined ? {} : { action }),
    reason: error.error,
    error,
    value: problemText(error, valueLimit),
    ...(known.content === undefined ? {} : { content: known.content }),
  };
}
