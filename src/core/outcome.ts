import { type ErrorCode, type Problem, QmError, toQmError } from "./errors.ts";
import { type Content, cutText } from "./handler-result.ts";
import { type HintWords, renderHint } from "./hint.ts";
import { isRecord, type Json, type JsonObject, omitUndefined } from "./json.ts";
import type { ActionName } from "./names.ts";

interface OutcomeBase {
  readonly callId: string;
  /** Bounded text for models and logs. The system never parses it. */
  readonly value: string;
  readonly durationMs: number;
  /** Set when an earlier identical call ran instead: the id of that call. */
  readonly ranAs?: string;
  /** Whether the name or the arguments had to be corrected. */
  readonly isRepaired?: true;
  /** The result for an interface that can show more than text. Absent: `data` or `error` is all there is. */
  readonly content?: Content;
}

/**
 * The answer to a call: a value, never an exception.
 *
 * - `done`: it ran; `data` is the whole result, for programs
 * - `failed`: it ran or could not run, and `error` says why
 * - `refused`: it did not run, because the caller may not, or a person denied it
 * - `waiting`: a person must approve it first; then it runs once, even if no one waits for it. A call whose handler
 *   needs a call that waits is `waiting`, too: repeating it after the approval continues with the result of the inner call
 */
export type Outcome =
  | (OutcomeBase & {
      readonly status: "done";
      readonly action: ActionName;
      readonly data: unknown;
      /** Shown to a model in place of `data`, which holds hidden fields or is too long. */
      readonly forModel?: unknown;
      /** The stored result, if it is longer than the text shown to a model. */
      readonly kept?: ResultReference;
    })
  | (OutcomeBase & {
      readonly status: "waiting";
      readonly action: ActionName;
      readonly reason: string;
      readonly approval: WaitingApproval;
      readonly hint: string;
      /** The handler's return value, if a call inside waits. `continue_with` in it: arguments to add when the call is repeated. */
      readonly progress?: unknown;
    })
  | (OutcomeBase & {
      readonly status: "failed" | "refused";
      readonly action?: ActionName;
      readonly reason: string;
      readonly error: Problem;
    });

export interface ResultReference {
  /** `note__12`, `collection__7`. Load it, or pass `{"$from": "note__12"}` as an argument of any call. */
  readonly handle: ActionName;
  /** The same as `handle`, under the name that uniform results have for it. */
  readonly resource_id: ActionName;
  readonly kind: "note" | "collection";
  readonly bytes: number;
  readonly count?: number;
}

export type OutcomeStatus = Outcome["status"];

export type WaitingOutcome = Extract<Outcome, { readonly status: "waiting" }>;

export interface WaitingApproval {
  readonly id: string;
  /** The action that a person must approve, if another call made it. */
  readonly inner?: ActionName;
  /** The level that must approve: `user`, `admin`, or one of the installation's own. */
  readonly level: string;
  readonly expiresAt: string;
  /** Exactly what would run, if the arguments do not tell it all. */
  readonly preview?: string;
  /** Why the client was not asked although it can show forms. */
  readonly unfit?: string;
}

export const getModelData = ({ data, forModel }: Extract<Outcome, { readonly status: "done" }>): unknown =>
  forModel === undefined ? data : forModel;

/** The error of a call that did not end well, for a call around it that fails with the same error. */
export function toOutcomeError({ error: problem, content }: Extract<Outcome, { readonly error: Problem }>): QmError {
  const { code, error, hint, ...details } = problem;
  return new QmError(code, error, { ...omitUndefined({ hint }), details, content });
}

export const isToolDenied = (outcome: Outcome) => outcome.status === "refused" && outcome.error.code === "tool_denied";
export const VALUE_LIMIT = 4096;

export const formatResultValue = (data: unknown, limit = VALUE_LIMIT): string =>
  cutText(typeof data === "string" ? data : (JSON.stringify(data) ?? "null"), limit);

/** A problem as text for a model. A long one loses its schema before its end. */
export function formatProblemJson(problem: Problem, limit = VALUE_LIMIT): string {
  const text = JSON.stringify(problem);
  if (text.length <= limit) return text;
  const { input_schema: _schema, ...rest } = problem;
  return formatResultValue(rest, limit);
}

export interface CallEnding {
  readonly callId: string;
  readonly durationMs: number;
  readonly valueLimit: number;
  /** Undefined if the name was not resolved. */
  readonly action: ActionName | undefined;
  /** How the caller's surface names the steps in hints. Absent: hints name none. */
  readonly words?: HintWords;
}

/** Errors of calls that the caller may not make or a person did not approve. All others are failures. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set([
  "approval_expired",
  "budget_exceeded",
  "denied",
  "not_evaluated",
  "quarantined",
  "tool_denied",
  "unknown_actor",
]);

export function createFailedOutcome(ending: CallEnding, thrown: unknown): Outcome {
  const { callId, durationMs, valueLimit, action, words } = ending;
  const known = toQmError(thrown);
  const error: Problem = known.toProblem(words);
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

export type Wait = Pick<WaitingOutcome, "reason" | "approval" | "progress">;

export function createWaitingOutcome(
  { callId, durationMs, valueLimit, words }: CallEnding,
  action: ActionName,
  wait: Wait,
): Outcome {
  const waits = { ...wait, hint: composeWaitingHint(wait, words) };
  const value = formatResultValue({ status: "waiting", ...toWaitingFacts(waits) }, valueLimit);
  return { status: "waiting", callId, durationMs, action, ...waits, value };
}

/** Tells the caller how to get the outcome, and at a terminal or in a program also how to approve the call. */
export function composeWaitingHint({ approval, progress }: Wait, words?: HintWords): string {
  const { id, inner, unfit } = approval;
  const sentences = [
    inner === undefined ? "It has not run yet." : `It waits for ${inner}.`,
    "When a person approves it, it runs by itself, once.",
    "Tell {user} what waits and why, and that they can approve it with this approval id on Quartermaster's command line or approval page.",
    unfit === undefined ? "" : `The user was not asked here, because ${unfit}.`,
    `Approve it with {approve ${id}}.`,
    ...(inner === undefined ? suggestDirectSteps(id, words) : suggestOuterSteps(id, inner, progress, words)),
  ];
  return renderHint(sentences.filter((sentence) => sentence !== "").join(" "), words) ?? "";
}

/** Commands can be named at a terminal only, where a person reads the outcome and needs no action to wait for it. */
const isAtTerminal = (words?: HintWords): boolean => words?.("qm approvals") !== undefined;

function suggestDirectSteps(id: string, words?: HintWords): readonly string[] {
  if (isAtTerminal(words))
    return ["That prints its outcome.", "If it is approved elsewhere, repeat this call to get its outcome."];
  const waits = `Call {approval__await} with {"approval_id":"${id}"} to get its outcome.`;
  return [waits, "Repeat the same call later to get its outcome."];
}

function suggestOuterSteps(id: string, inner: string, progress: unknown, words?: HintWords): readonly string[] {
  const repeats =
    isRecord(progress) && progress.continue_with !== undefined
      ? "Then repeat this call with the arguments in continue_with added."
      : "Then repeat this call. It continues with that result.";
  if (isAtTerminal(words)) return [repeats];
  return [repeats, `Or get the result of ${inner} alone: call {approval__await} with {"approval_id":"${id}"}.`];
}

export function toWaitingFacts({ reason, approval, hint, progress }: Wait & Pick<WaitingOutcome, "hint">): JsonObject {
  const { id, inner, level, expiresAt, preview } = approval;
  return {
    reason,
    approval_id: id,
    ...(inner === undefined ? {} : { inner }),
    level,
    expires_at: expiresAt,
    hint,
    // Last, so that cutting a long preview does not cut the hint.
    ...(progress === undefined ? {} : { progress: progress as Json }),
    ...(preview === undefined ? {} : { would_run: preview }),
  };
}
