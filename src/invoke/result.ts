import type { Action, JsonSchema } from "../core/action.ts";
import { getErrorMessage, QmError, toErrorDetails } from "../core/errors.ts";
import { type Content, formatContent, measureMedia, WithContent } from "../core/handler-result.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { ActionName } from "../core/names.ts";
import { type CallEnding, formatResultValue, type Outcome } from "../core/outcome.ts";
import type { SchemaMismatch } from "../core/schema-validator.ts";
import { getValidator } from "../core/schema-validator.ts";
import { AnnotatedRecord } from "../distribution/annotated-record.ts";
import type { DistributedResult } from "../distribution/distributor.ts";
import { fitJson } from "../infospace/json-preview.ts";
import type { NoteAuthor } from "../infospace/provenance.ts";
import { isOutOfRoom } from "../infospace/quota.ts";
import type { StoredResult, VisibleResult } from "../infospace/result-store.ts";
import type { ActionCall, InvokePipeline } from "./invoke.ts";

/** A result that is JSON and, where the action declares a form, has it. */
export interface CheckedResult {
  readonly data: unknown;
  /** Its JSON. */
  readonly text: string;
  readonly content?: Content;
  /** Of the data and of what only the content has. */
  readonly bytes: number;
  /** What a model is shown in its place. Absent: it may see everything. */
  readonly forModel?: unknown;
  /** What may be written down in its place. Absent: everything. */
  readonly audit?: unknown;
  /** Where it is kept, and what a model is shown of it. Absent: it is short enough to be shown, or nobody keeps any. */
  readonly kept?: StoredResult;
}

/** What came bit by bit, where it is now. */
export class StoredStream {
  readonly kept: StoredResult;

  constructor(kept: StoredResult) {
    this.kept = kept;
  }
}

/** A record that is not for everybody alike is shared out by `distribute`, whole and checked. */
export async function checkResult(
  action: Action,
  answered: unknown,
  distribute: (annotated: AnnotatedRecord<unknown>) => Promise<DistributedResult>,
): Promise<CheckedResult> {
  if (answered instanceof StoredStream) return toStreamResult(answered.kept);
  if (!(answered instanceof AnnotatedRecord)) return checkData(action, answered);
  const whole = checkData(action, answered.record);
  const { forModel, audit } = await distribute(answered);
  return { ...whole, forModel, audit };
}

/** Nobody holds all of it: its data is where it is. */
function toStreamResult(kept: StoredResult): CheckedResult {
  const { shown: _shown, ...data } = kept;
  return { data, text: JSON.stringify(data), bytes: kept.bytes, kept };
}

function checkData(action: Action, answered: unknown): CheckedResult {
  const { data, content } = answered instanceof WithContent ? answered : { data: answered };
  const text = toJsonText(action, data);
  const bytes = Buffer.byteLength(text) + (content === undefined ? 0 : measureMedia(content.blocks));
  const checked = { data: data ?? null, text, bytes, ...(content === undefined ? {} : { content }) };
  if (action.outputSchema === undefined) return checked;
  const mismatches = findMismatches(action, action.outputSchema, text);
  if (mismatches.length === 0) return checked;
  throw new QmError("invalid_output", `${action.name} ran, but its result is not of the form it declares`, {
    details: toErrorDetails({ problems: mismatches.map((mismatch): JsonObject => ({ ...mismatch })) }),
    hint: getFaultHint(action),
  });
}

/** The JSON is checked, because that is what leaves: a Date is a text by then. */
function findMismatches(action: Action, schema: JsonSchema, text: string): readonly SchemaMismatch[] {
  try {
    return getValidator(schema, "result")(JSON.parse(text), text.length);
  } catch (thrown) {
    throw new QmError(
      "invalid_output",
      `${action.name} ran, but its result cannot be checked: ${getErrorMessage(thrown)}`,
      {
        cause: thrown,
        hint: getFaultHint(action),
      },
    );
  }
}

function toJsonText(action: Action, data: unknown): string {
  try {
    if (isNotJson(data)) throw new TypeError(`it is a ${describeKind(data)}`);
    return JSON.stringify(data) ?? "null";
  } catch (thrown) {
    throw new QmError("invalid_output", `${action.name} ran, but its result is not JSON: ${getErrorMessage(thrown)}`, {
      hint: getFaultHint(action),
    });
  }
}

/** What JSON would turn into nothing or into `{}` without a word. */
function isNotJson(data: unknown): boolean {
  if (typeof data === "function" || typeof data === "symbol") return true;
  return data instanceof Map || data instanceof Set || data instanceof Error || data instanceof WeakMap;
}

function describeKind(data: unknown): string {
  return typeof data === "object" ? (data?.constructor.name ?? "object") : typeof data;
}

function getFaultHint({ effect }: Action): string {
  return effect === "pure" || effect === "read"
    ? "This is a fault of the action."
    : "This is a fault of the action; what it did is done.";
}

/**
 * A result that is longer than what a model is shown becomes a note or a collection. One that a handler asked for is that
 * handler's; that it could not be kept does not undo what was done.
 */
export async function storeLongResult(
  door: Pick<InvokePipeline, "keeper" | "valueLimit" | "onProblem">,
  call: ActionCall,
  action: Action,
  result: CheckedResult,
): Promise<CheckedResult> {
  if (call.inside !== undefined || call.keep === false || result.kept !== undefined) return result;
  try {
    const kept = await door.keeper.store(toStorable(result), toMaker(call, action), door.valueLimit);
    return kept === undefined ? result : { ...result, kept };
  } catch (thrown) {
    door.onProblem(`call ${call.id}: its result could not be kept: ${getErrorMessage(thrown)}`);
    return thrown instanceof QmError && isOutOfRoom(thrown) ? cutResult(result, thrown, door.valueLimit) : result;
  }
}

/** The beginning of a result there is no room for, with the reason: a model that is not told would call again. */
function cutResult(result: CheckedResult, { message, hint = "" }: QmError, limit: number): CheckedResult {
  const told = { not_kept: `The call is done. Its result is too long to be shown and was not kept: ${message}.`, hint };
  const { value } = fitJson(
    (result.forModel ?? result.data) as Json,
    limit - JSON.stringify(told).length - WRAPPER_LENGTH,
  );
  return { ...result, forModel: { ...told, result: value } };
}

const WRAPPER_LENGTH = `,"result":`.length;

/** What a model may see of it, and nothing else. */
function toStorable({ data, text, content, forModel }: CheckedResult): VisibleResult {
  if (forModel !== undefined) return { data: forModel, size: JSON.stringify(forModel).length };
  return { data, content, size: text.length + (content === undefined ? 0 : measureMedia(content.blocks)) };
}

function toMaker({ caller, id: callId }: ActionCall, { name: action }: Action): NoteAuthor {
  return { caller, callId, action };
}

export function toDoneOutcome(
  { callId, durationMs, valueLimit }: CallEnding,
  action: ActionName,
  { data, content, forModel, kept }: Pick<CheckedResult, "data" | "content" | "forModel" | "kept">,
): Outcome {
  const ended = { status: "done", callId, durationMs, action, data } as const;
  if (kept !== undefined) {
    const { shown, ...where } = kept;
    const rest = content === undefined ? {} : { content };
    return { ...ended, ...rest, kept: where, forModel: shown, value: formatResultValue(shown, valueLimit) };
  }
  if (forModel !== undefined) return { ...ended, forModel, value: formatResultValue(forModel, valueLimit) };
  if (content === undefined) return { ...ended, value: formatResultValue(data, valueLimit) };
  return { ...ended, content, value: formatContent(content.blocks, valueLimit) };
}
