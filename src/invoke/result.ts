import { type Action, hasSideEffects } from "../core/action.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { type Content, cutText, formatContent, measureMedia, WithContent } from "../core/handler-result.ts";
import { isRecord, type Json, type JsonObject } from "../core/json.ts";
import type { ActionName } from "../core/names.ts";
import { type CallEnding, formatResultValue, type Outcome, type Wait } from "../core/outcome.ts";
import { getValidator, type SchemaMismatch } from "../core/schema-validator.ts";
import { AnnotatedRecord } from "../distribution/annotated-record.ts";
import type { DistributedResult } from "../distribution/distributor.ts";
import { fitJson } from "../infospace/json-preview.ts";
import type { CallSources } from "../infospace/provenance.ts";
import { isOutOfRoom } from "../infospace/quota.ts";
import type { StoredResult, VisibleResult } from "../infospace/result-store.ts";
import type { ActionCall, InvokePipeline } from "./invoke.ts";
import type { WaitingInside } from "./waiting-inside.ts";

/** A result that is JSON and fits the action's output schema. */
export interface CheckedResult {
  readonly data: unknown;
  readonly text: string;
  readonly content?: Content;
  /** Of the data, and of media that only the content has. */
  readonly bytes: number;
  readonly forModel?: unknown;
  readonly audit?: unknown;
  /** Set when the result was too long to be shown and was stored. */
  readonly kept?: StoredResult;
}

export class StoredStream {
  readonly kept: StoredResult;

  constructor(kept: StoredResult) {
    this.kept = kept;
  }
}

/** Checks a result. An annotated record is then split by `distribute` into what the model and the audit may see. */
export function checkResult(
  action: Action,
  answered: unknown,
  distribute: (annotated: AnnotatedRecord<unknown>) => Promise<DistributedResult>,
): CheckedResult | Promise<CheckedResult> {
  if (answered instanceof StoredStream) return toStreamResult(answered.kept);
  if (!(answered instanceof AnnotatedRecord)) return checkData(action, answered);
  const whole = checkData(action, answered.record);
  return distribute(answered).then(({ forModel, audit }) => ({ ...whole, forModel, audit }));
}

/** Characters of a waiting answer beside the progress. */
const WAITING_FACTS = 1_500;

/** The wait of an inner call as the wait of the call that made it, with what a model may see of its answer. */
export async function toInnerWait(
  { outcome, answered }: WaitingInside,
  distribute: (annotated: AnnotatedRecord<unknown>) => Promise<DistributedResult>,
  valueLimit: number,
): Promise<Wait> {
  const { reason, approval, action } = outcome;
  const waits = { reason, approval: { ...approval, inner: approval.inner ?? action } };
  const seen = await readProgress(answered, distribute);
  if (seen === undefined || seen === null) return waits;
  return { ...waits, progress: fitJson(seen, Math.max(valueLimit - WAITING_FACTS, valueLimit / 2)).value };
}

/** Undefined for what is not JSON: the call is repeated and answers then. */
async function readProgress(
  answered: unknown,
  distribute: (annotated: AnnotatedRecord<unknown>) => Promise<DistributedResult>,
): Promise<Json | undefined> {
  if (answered instanceof StoredStream) return toStreamResult(answered.kept).data as Json;
  if (answered instanceof AnnotatedRecord) return (await distribute(answered)).forModel;
  const data = answered instanceof WithContent ? answered.data : answered;
  try {
    return isNotJson(data) ? undefined : JSON.parse(JSON.stringify(data));
  } catch {
    return undefined;
  }
}

function toStreamResult(kept: StoredResult): CheckedResult {
  const { shown: _shown, ...data } = kept;
  return { data, text: JSON.stringify(data), bytes: kept.bytes, kept };
}

function checkData(action: Action, answered: unknown): CheckedResult {
  const { data, content } = answered instanceof WithContent ? answered : { data: answered };
  const text = toJsonText(action, data);
  const bytes = Buffer.byteLength(text) + (content === undefined ? 0 : measureMedia(content.blocks));
  const mismatches = findMismatches(action, text);
  if (mismatches.length === 0)
    return { data: data ?? null, text, bytes, ...(content === undefined ? {} : { content }) };
  const problems = mismatches.map((mismatch): JsonObject => ({ ...mismatch }));
  throw invalidOutputError(action, "does not fit its output schema", { details: { problems } });
}

/** Checks the JSON, because that is what leaves: a Date is a string by then. */
function findMismatches(action: Action, text: string): readonly SchemaMismatch[] {
  if (action.outputSchema === undefined) return [];
  try {
    return getValidator(action.outputSchema, "result")(JSON.parse(text), text.length);
  } catch (thrown) {
    throw invalidOutputError(action, `cannot be checked: ${getErrorMessage(thrown)}`, { cause: thrown });
  }
}

function toJsonText(action: Action, data: unknown): string {
  try {
    if (isNotJson(data)) throw new TypeError(`it is a ${describeKind(data)}`);
    return JSON.stringify(data) ?? "null";
  } catch (thrown) {
    throw invalidOutputError(action, `is not JSON: ${getErrorMessage(thrown)}`);
  }
}

/** Values that `JSON.stringify` silently turns into nothing or `{}`. */
function isNotJson(data: unknown): boolean {
  if (typeof data === "function" || typeof data === "symbol") return true;
  return data instanceof Map || data instanceof Set || data instanceof Error || data instanceof WeakMap;
}

const describeKind = (data: unknown) => (typeof data === "object" ? (data?.constructor.name ?? "object") : typeof data);

function invalidOutputError(action: Action, what: string, options: { details?: JsonObject; cause?: unknown } = {}) {
  const effect = hasSideEffects(action.effect) ? "; what it did is done" : "";
  const hint = `This is a fault of the action${effect}.`;
  return new QmError("invalid_output", `${action.name} ran, but its result ${what}`, { ...options, hint });
}

/** Stores a result too long to show, except for handlers. A failure is only reported: the call has run. */
export function storeLongResult(
  pipeline: Pick<InvokePipeline, "resultStore" | "valueLimit" | "onProblem">,
  { id: callId, caller, inside, keep }: ActionCall,
  { name: action, resultChars, storesResult }: Action,
  result: CheckedResult,
  sources: CallSources,
): CheckedResult | Promise<CheckedResult> {
  const isFromHandler = inside !== undefined && !inside.isFromModel;
  if (isFromHandler || keep === false || result.kept !== undefined) return result;
  const { resultStore, onProblem } = pipeline;
  const valueLimit = resultChars ?? pipeline.valueLimit;
  const visible = toVisibleResult(result);
  const limit = storesResult && isStorable(visible.data) ? 0 : valueLimit;
  if (visible.size <= limit) return result;
  const store = () => resultStore.store(visible, { caller, callId, action }, limit);
  return sources.within(store).then(
    (kept) => (kept === undefined ? result : { ...result, kept }),
    (thrown: unknown) => {
      onProblem(`call ${callId}: its result could not be stored: ${getErrorMessage(thrown)}`);
      const isCut = visible.size > valueLimit && thrown instanceof QmError && isOutOfRoom(thrown);
      return isCut ? cutResult(result, thrown, valueLimit) : result;
    },
  );
}

/** A text, record or list, unless it refers to a stored resource already. */
const isStorable = (data: unknown): boolean =>
  typeof data === "string" || Array.isArray(data) || (isRecord(data) && typeof data.resource_id !== "string");

/** The beginning of a result that there is no room to store. Says why, or the model would call again. */
function cutResult(result: CheckedResult, { message, hint = "" }: QmError, limit: number): CheckedResult {
  const not_kept = `The call is done. Its result is too long to be shown and was not stored: ${message}.`;
  const facts = { not_kept, hint };
  const room = limit - JSON.stringify(facts).length - `,"result":`.length;
  const { value } = fitJson((result.forModel ?? result.data) as Json, room);
  return { ...result, forModel: { ...facts, result: value } };
}

/** Only what the model may see is stored. */
function toVisibleResult({ data, text, content, forModel }: CheckedResult): VisibleResult {
  if (forModel !== undefined) return { data: forModel, size: JSON.stringify(forModel).length };
  return { data, content, size: text.length + (content === undefined ? 0 : measureMedia(content.blocks)) };
}

/** `text`: the JSON of the data, if it was written already. */
type DoneResult = Pick<CheckedResult, "data" | "content" | "forModel" | "kept"> & { readonly text?: string };

export function toDoneOutcome(
  { callId, durationMs, valueLimit }: CallEnding,
  action: ActionName,
  { data, text, content, forModel, kept }: DoneResult,
): Outcome {
  const ended = { status: "done", callId, durationMs, action, data } as const;
  if (kept !== undefined) {
    const { shown, ...where } = kept;
    const rest = content === undefined ? {} : { content };
    return { ...ended, ...rest, kept: where, forModel: shown, value: formatResultValue(shown, valueLimit) };
  }
  if (forModel !== undefined) return { ...ended, forModel, value: formatResultValue(forModel, valueLimit) };
  // Written out: V8 creates a hidden class for each object that begins with a spread and gets other fields.
  if (content !== undefined) {
    const value = formatContent(content.blocks, valueLimit);
    return { status: "done", callId, durationMs, action, data, content, value };
  }
  const isWritten = text !== undefined && typeof data !== "string";
  const value = isWritten ? cutText(text, valueLimit) : formatResultValue(data, valueLimit);
  return { status: "done", callId, durationMs, action, data, value };
}
