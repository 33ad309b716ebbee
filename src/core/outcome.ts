import { type ErrorCode, getErrorMessage, type Problem, QmError } from "./errors.ts";
import type { Content } from "./handler-result.ts";
import { clip, type JsonObject } from "./json.ts";
import type { ActionName } from "./names.ts";

interface OutcomeBase {
  readonly callId: string;
  /** Bounded text for the model and for logs. Nothing inside the system reads it back. */
  readonly value: string;
  readonly durationMs: number;
  /** Of a call that was asked for before and has run meanwhile: the id of the call that ran. Nothing ran now. */
  readonly ranAs?: string;
  /** The same result for an interface that can show more than text. Absent: it is what `data` or `error` says. */
  readonly content?: Content;
}

/**
 * The answer to a call: a value, never an exception.
 *
 * - `done`: it ran; `data` is the whole result, for programs
 * - `failed`: it was tried, or could not be tried, and `error` says why
 * - `refused`: it was not run, because the caller may not, or a person said no
 * - `waiting`: it has not run yet: a person must agree first, and then it runs, once, whoever waits for it
 */
export type Outcome =
  | (OutcomeBase & {
      readonly status: "done";
      readonly action: ActionName;
      readonly data: unknown;
      /** What a model is shown in place of `data`: it may not see everything, or there is too much of it. */
      readonly forModel?: unknown;
      /** Where the whole of what a model may see is, for a result that is longer than what it is shown. */
      readonly kept?: ResultReference;
    })
  | (OutcomeBase & {
      readonly status: "waiting";
      readonly action: ActionName;
      readonly reason: string;
      readonly approval: WaitingApproval;
    })
  | (OutcomeBase & {
      readonly status: "failed" | "refused";
      readonly action?: ActionName;
      readonly reason: string;
      readonly error: Problem;
    });

/** A result as a note or a collection. */
export interface ResultReference {
  /** `note__12`, `collection__7`: to be loaded, or given as `{"$from": "note__12"}` in the arguments of any call. */
  readonly handle: ActionName;
  readonly kind: "note" | "collection";
  readonly bytes: number;
  /** Of a collection. */
  readonly count?: number;
}

export type OutcomeStatus = Outcome["status"];

/** What a call waits for. */
export interface WaitingApproval {
  readonly id: string;
  /** Who must agree: `user`, `admin`, or a level of the installation's own. */
  readonly level: string;
  /** ISO 8601, UTC. Nobody can agree after it. */
  readonly expiresAt: string;
  /** What exactly running it would do, where the arguments do not say it all. */
  readonly preview?: string;
  /** Why the person at the client was not asked there, although the client can ask. */
  readonly unfit?: string;
}

/** Of a result, what a model is shown. */
export function getModelData({ data, forModel }: Extract<Outcome, { readonly status: "done" }>): unknown {
  return forModel === undefined ? data : forModel;
}

/** Whether a person said no to this very call. */
export function isToolDenied(outcome: Outcome): boolean {
  return outcome.status === "refused" && outcome.error.code === "tool_denied";
}

/** How much of a result a model is shown. */
export const VALUE_LIMIT = 4096;

/** A result as a model reads it: text as it is, anything else as JSON, cut with a note of what is missing. */
export function formatResultValue(data: unknown, limit = VALUE_LIMIT): string {
  const text = typeof data === "string" ? data : (JSON.stringify(data) ?? "null");
  if (text.length <= limit) return text;
  const note = ` [cut: ${text.length} characters in all]`;
  return clip(text, limit - note.length) + note;
}

/** A problem as a model reads it. What is too long loses its schema before it loses its end. */
export function formatProblemJson(problem: Problem, limit = VALUE_LIMIT): string {
  const text = JSON.stringify(problem);
  if (text.length <= limit) return text;
  const { input_schema: _schema, ...rest } = problem;
  return formatResultValue(rest, limit);
}

/** What is known of a call when it ends. */
export interface CallEnding {
  readonly callId: string;
  readonly durationMs: number;
  readonly valueLimit: number;
  /** Absent when the call did not get as far as an action. */
  readonly action: ActionName | undefined;
}

/** Not run because the caller may not, or a person did not agree; everything else that did not end well has failed. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set([
  "approval_expired",
  "budget_exceeded",
  "denied",
  "not_evaluated",
  "quarantined",
  "tool_denied",
  "unknown_actor",
]);

export function createFailedOutcome({ callId, durationMs, valueLimit, action }: CallEnding, thrown: unknown): Outcome {
  const known = thrown instanceof QmError ? thrown : new QmError("internal", getErrorMessage(thrown));
  const error: Problem = known.toProblem();
  return {
    status: REFUSALS.has(error.code) ? "refused" : "failed",
    callId,
    durationMs,
    ...(action === undefined ? {} : { action }),
    reason: error.error,
    error,
    value: formatProblemJson(error, valueLimit),
    ...(known.content === undefined ? {} : { content: known.content }),
  };
}

export function createWaitingOutcome(
  { callId, durationMs, valueLimit }: CallEnding,
  action: ActionName,
  reason: string,
  approval: WaitingApproval,
): Outcome {
  const told = { status: "waiting", ...toWaitingFacts(reason, approval) };
  return {
    status: "waiting",
    callId,
    durationMs,
    action,
    reason,
    approval,
    value: formatResultValue(told, valueLimit),
  };
}

/** What a model is told of a call that waits. */
export function toWaitingFacts(reason: string, approval: WaitingApproval): JsonObject {
  const { id, level, expiresAt, preview, unfit } = approval;
  const elsewhere =
    unfit === undefined
      ? ""
      : ` The user was not asked here, because ${unfit}: they answer it with \`qm approvals\`, an approval link or the HTTP API.`;
  return {
    reason,
    approval_id: id,
    level,
    expires_at: expiresAt,
    hint: `It has not run. Once a person agrees it runs by itself, once. Tell the user what waits and why; approval__await with {"approval_id":"${id}"}, or the same call again, answers what became of it.${elsewhere}`,
    // Last: a long one is cut, and the hint is not.
    ...(preview === undefined ? {} : { would_run: preview }),
  };
}
