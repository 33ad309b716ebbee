import { transformArgs } from "../catalog/snapshot.ts";
import type { Action } from "../core/action.ts";
import { QmError, toErrorDetails } from "../core/errors.ts";
import { FIT_HINT } from "../core/hint.ts";
import { isLargerThan, isRecord, type JsonObject } from "../core/json.ts";
import { type NormalizedArgs, normalizeArgs } from "../core/normalize-arguments.ts";
import { getValidator, type SchemaMismatch } from "../core/schema-validator.ts";
import { canHoldTokens } from "../distribution/anchor-token.ts";
import { mayContainHandles } from "../infospace/handle-resolver.ts";
import type { CallSources } from "../infospace/provenance.ts";
import { createMinimalExample, repairToSchema } from "./argument-repair.ts";
import type { CallRecord } from "./call-record.ts";
import type { ActionCall, InvokePipeline } from "./invoke.ts";

export interface PreparedArguments {
  readonly args: JsonObject;
  /** One `/path: change` for each repair. */
  readonly repairs: readonly string[];
  readonly isNormalized?: true;
}

export interface ArgumentSpec extends Pick<Action, "inputSchema" | "examples" | "normalize"> {
  readonly name: string;
}

/** A plain copy of arguments that no other code can reach. */
interface ArgumentCopy {
  /** Validation fills in the schema's defaults here. */
  readonly value: unknown;
  /** The JSON before validation. */
  readonly text: string;
}

/** In characters of JSON, like the other limits. */
const ARGUMENT_LIMIT = 1024 * 1024;
/** A person cannot read more, and rendering more would block the process. */
export const APPROVAL_ARGUMENT_LIMIT = 256 * 1024;
/** After handles were replaced by values. */
const FILLED_ARGUMENT_LIMIT = 16 * 1024 * 1024;
const DEPTH_LIMIT = 256;
const LONG_ARGUMENT_SIZE = 64 * 1024;

/** Validates, normalizes, and repairs if needed. Throws `invalid_arguments` with the schema and an example. */
export function prepareArguments(action: ArgumentSpec, own: ArgumentCopy): PreparedArguments {
  const { args, repairs } = repairArguments(action, own);
  const normal = normalizeArguments(action, args);
  const notes = normal.changed.map((argument) => `/${argument.replaceAll(".", "/")}: brought into its normal form`);
  return { args: normal.args, repairs: [...repairs, ...notes], ...(notes.length > 0 ? { isNormalized: true } : {}) };
}

function normalizeArguments(action: ArgumentSpec, args: JsonObject): NormalizedArgs {
  const normal = action.normalize && normalizeArgs(action.normalize, args);
  if (normal === undefined || normal.changed.length === 0) return { args, changed: [] };
  const checked = checkArguments(action, copyFilledArguments(normal.args));
  if (!checked.ok) throw invalidArgumentsError(action, checked.mismatches);
  return { ...normal, args: checked.args };
}

function repairArguments(action: ArgumentSpec, own: ArgumentCopy): PreparedArguments {
  const original = checkArguments(action, own);
  const unknown = original.ok ? countUnknownFields(action, original.args) : 0;
  if (original.ok && unknown === 0) return { args: original.args, repairs: [] };
  const { args, repairs } = repairToSchema(action.inputSchema, JSON.parse(own.text));
  const repaired = repairs.length === 0 ? original : checkArguments(action, copyFilledArguments(args));
  if (original.ok) {
    const isBetter = repairs.length > 0 && repaired.ok && countUnknownFields(action, repaired.args) < unknown;
    return isBetter ? { args: repaired.args, repairs } : { args: original.args, repairs: [] };
  }
  if (repaired.ok) return { args: repaired.args, repairs };
  throw invalidArgumentsError(action, repaired.mismatches);
}

/** Zero for a schema that names no properties. */
const countUnknownFields = ({ inputSchema: { properties } }: ArgumentSpec, args: JsonObject): number =>
  isRecord(properties) ? Object.keys(args).filter((key) => !Object.hasOwn(properties, key)).length : 0;

/** Adds the schema and an example to an `invalid_arguments` error that a handler threw. */
export function addSchemaDetails(action: Action, thrown: unknown): unknown {
  if (!(thrown instanceof QmError) || thrown.code !== "invalid_arguments" || "input_schema" in thrown.details)
    return thrown;
  return new QmError("invalid_arguments", thrown.message, {
    cause: thrown,
    hint: thrown.hint ?? FIT_HINT,
    details: {
      ...thrown.details,
      ...toSchemaDetails(action),
      // The shortest arguments that fit the schema can be the ones that the action has just refused.
      ...toErrorDetails({ example: thrown.details.example }),
    },
  });
}

/** The arguments for a resource's operation, checked against that operation's schema. */
export function toTargetArguments(action: Action, target: Action | undefined, args: JsonObject): JsonObject {
  if (target === undefined || action.canonical === undefined) return args;
  const transformed = copyFilledArguments(transformArgs(action.canonical.transform, action.entry, args));
  const checked = checkArguments(target, transformed);
  if (checked.ok) return normalizeArguments(target, checked.args).args;
  throw invalidArgumentsError(action, checked.mismatches);
}

/** Checking long arguments takes time, so other calls get a turn before and after. */
export const isLongArgument = ({ text }: ArgumentCopy): boolean => text.length > LONG_ARGUMENT_SIZE;

type ArgumentCheck =
  | { readonly ok: true; readonly args: JsonObject }
  | { readonly ok: false; readonly mismatches: readonly SchemaMismatch[] };

function checkArguments({ inputSchema }: ArgumentSpec, { value, text }: ArgumentCopy): ArgumentCheck {
  const mismatches = getValidator(inputSchema, "arguments")(value, text.length);
  if (mismatches.length > 0) return { ok: false, mismatches };
  return isRecord(value)
    ? { ok: true, args: value as JsonObject }
    : { ok: false, mismatches: [{ path: "", message: "must be object" }] };
}

/** Copies arguments whose handles and tokens were replaced, or that a person approved. */
export const copyFilledArguments = (args: unknown): ArgumentCopy => copyArguments(args, FILLED_ARGUMENT_LIMIT);

/** Copies arguments through JSON: the caller cannot change the copy later, and it holds nothing but JSON. */
export function copyArguments(args: unknown, limit = ARGUMENT_LIMIT): ArgumentCopy {
  const given = args ?? {};
  let text: string | undefined;
  try {
    if (isLargerThan(given, { nodes: limit / 2, depth: DEPTH_LIMIT }))
      throw tooLargeError(`are nested deeper than ${DEPTH_LIMIT} or endless`);
    text = JSON.stringify(given);
  } catch (thrown) {
    if (thrown instanceof QmError) throw thrown;
    throw notJsonError("Give a JSON object without cycles.", thrown);
  }
  if (text === undefined) throw notJsonError("Give a JSON object.");
  if (text.length > limit) throw tooLargeError(`have ${text.length} characters; at most ${limit} are allowed`);
  return { value: JSON.parse(text), text };
}

function notJsonError(hint: string, cause?: unknown): QmError {
  return new QmError("invalid_arguments", "the arguments are not JSON", { cause, hint });
}

function tooLargeError(what: string): QmError {
  return new QmError("too_large", `the arguments ${what}`, { hint: "Send less at a time." });
}

function invalidArgumentsError(action: ArgumentSpec, mismatches: readonly SchemaMismatch[]): QmError {
  const problems = mismatches.map(({ path, message }) => `${path || "the arguments"} ${message}`).join("; ");
  return new QmError("invalid_arguments", `the arguments of ${action.name} do not fit: ${problems}`, {
    details: { problems: mismatches.map((mismatch): JsonObject => ({ ...mismatch })), ...toSchemaDetails(action) },
    hint: FIT_HINT,
  });
}

/** The schema comes last, because it may be too long to show. */
const toSchemaDetails = (action: ArgumentSpec): JsonObject =>
  toErrorDetails({ example: createMinimalExample(action), input_schema: action.inputSchema });

/** Copies the arguments and replaces handles, then tokens, by the values they stand for. `hasTokens`: the model has not seen some values. */
export function fillArguments(
  pipeline: Pick<InvokePipeline, "handles" | "anchors">,
  call: ActionCall,
  action: Action,
  record: CallRecord,
  sources: CallSources,
): FilledArguments | Promise<FilledArguments> {
  // An approved call was filled before it waited.
  if (call.permit !== undefined) return { own: copyFilledArguments(call.args), hasTokens: false };
  const isFromHandler = call.inside !== undefined && !call.inside.isFromModel;
  const own = isFromHandler ? copyFilledArguments(call.args) : copyArguments(call.args);
  const isPlain = !canHoldTokens(own.text) && (isFromHandler || !mayContainHandles(own.text));
  if (isPlain) return { own, hasTokens: false };
  return sources.within(() => replaceReferences(pipeline, call, action, record, own));
}

type FilledArguments = { readonly own: ArgumentCopy; readonly hasTokens: boolean };

async function replaceReferences(
  { handles, anchors }: Pick<InvokePipeline, "handles" | "anchors">,
  { caller, inside }: ActionCall,
  action: Action,
  record: CallRecord,
  copied: ArgumentCopy,
): Promise<FilledArguments> {
  const isFromHandler = inside !== undefined && !inside.isFromModel;
  let own = copied;
  // Handles from a handler stay data: it may pass on foreign text, and they would be read with the caller's rights.
  if (!isFromHandler && mayContainHandles(own.text)) {
    const before = own.text;
    const options = { asHandles: action.handleArguments };
    const { args: filled, from } = await handles.fill(caller, unwrapJson(own.value), options);
    own = copyFilledArguments(filled);
    if (own.text !== before) record.filled(action, from, own.value);
  }
  const hasTokens = canHoldTokens(own.text);
  if (!hasTokens || action.keepsTokens) return { own, hasTokens };
  const { args: filled } = await anchors.fill(caller, own.value);
  return { own: copyFilledArguments(filled), hasTokens };
}

/** Reads arguments that came as JSON text. Repair would do so too late, after handles were replaced. */
function unwrapJson(value: unknown): unknown {
  if (typeof value !== "string") return value;
  try {
    const inner: unknown = JSON.parse(value);
    return isRecord(inner) ? inner : value;
  } catch {
    return value;
  }
}
