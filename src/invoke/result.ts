import type { Action, JsonSchema } from "../core/action.ts";
import { type Content, mediaSize, WithContent } from "../core/content.ts";
import { facts, messageOf, QmError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import type { Mismatch } from "../core/json-schema.ts";
import { validatorOf } from "../core/validator.ts";
import { AnnotatedRecord } from "../distribution/annotated-record.ts";
import type { Distributed } from "../distribution/distributor.ts";
import type { Kept } from "../infospace/keep.ts";

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
  readonly kept?: Kept;
}

/** What came bit by bit, where it is now. */
export class KeptStream {
  readonly kept: Kept;

  constructor(kept: Kept) {
    this.kept = kept;
  }
}

/** A record that is not for everybody alike is shared out by `distribute`, whole and checked. */
export async function checkedResult(
  action: Action,
  answered: unknown,
  distribute: (annotated: AnnotatedRecord<unknown>) => Promise<Distributed>,
): Promise<CheckedResult> {
  if (answered instanceof KeptStream) return streamedResult(answered.kept);
  if (!(answered instanceof AnnotatedRecord)) return checkedData(action, answered);
  const whole = checkedData(action, answered.record);
  const { forModel, audit } = await distribute(answered);
  return { ...whole, forModel, audit };
}

/** Nobody holds all of it: its data is where it is. */
function streamedResult(kept: Kept): CheckedResult {
  const { shown: _shown, ...data } = kept;
  return { data, text: JSON.stringify(data), bytes: kept.bytes, kept };
}

function checkedData(action: Action, answered: unknown): CheckedResult {
  const { data, content } = answered instanceof WithContent ? answered : { data: answered };
  const text = jsonOf(action, data);
  const bytes = Buffer.byteLength(text) + (content === undefined ? 0 : mediaSize(content.blocks));
  const checked = { data: data ?? null, text, bytes, ...(content === undefined ? {} : { content }) };
  if (action.outputSchema === undefined) return checked;
  const mismatches = mismatchesOf(action, action.outputSchema, text);
  if (mismatches.length === 0) return checked;
  throw new QmError("invalid_output", `${action.name} ran, but its result is not of the form it declares`, {
    details: facts({ problems: mismatches.map((mismatch): JsonObject => ({ ...mismatch })) }),
    hint: changed(action),
  });
}

/** The JSON is checked, because that is what leaves: a Date is a text by then. */
function mismatchesOf(action: Action, schema: JsonSchema, text: string): readonly Mismatch[] {
  try {
    return validatorOf(schema, "result")(JSON.parse(text), text.length);
  } catch (thrown) {
    throw new QmError("invalid_output", `${action.name} ran, but its result cannot be checked: ${messageOf(thrown)}`, {
      cause: thrown,
      hint: changed(action),
    });
  }
}

function jsonOf(action: Action, data: unknown): string {
  try {
    if (hasNoJson(data)) throw new TypeError(`it is a ${kindOf(data)}`);
    return JSON.stringify(data) ?? "null";
  } catch (thrown) {
    throw new QmError("invalid_output", `${action.name} ran, but its result is not JSON: ${messageOf(thrown)}`, {
      hint: changed(action),
    });
  }
}

/** What JSON would turn into nothing or into `{}` without a word. */
function hasNoJson(data: unknown): boolean {
  if (typeof data === "function" || typeof data === "symbol") return true;
  return data instanceof Map || data instanceof Set || data instanceof Error || data instanceof WeakMap;
}

function kindOf(data: unknown): string {
  return typeof data === "object" ? (data?.constructor.name ?? "object") : typeof data;
}

function changed({ effect }: Action): string {
  return effect === "pure" || effect === "read"
    ? "This is a fault of the action."
    : "This is a fault of the action; what it did is done.";
}
