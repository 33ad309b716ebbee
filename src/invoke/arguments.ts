import { transformArgs } from "../catalog/snapshot.ts";
import type { Action } from "../core/action.ts";
import { QmError, toErrorDetails } from "../core/errors.ts";
import { isLargerThan, isRecord, type JsonObject } from "../core/json.ts";
import { type NormalizedArgs, normalizeArgs } from "../core/normalize-arguments.ts";
import type { SchemaMismatch } from "../core/schema-validator.ts";
import { getValidator } from "../core/schema-validator.ts";
import { canHoldTokens } from "../distribution/anchor-token.ts";
import { mayContainHandles } from "../infospace/handle-resolver.ts";
import { createMinimalExample, repairToSchema } from "./argument-repair.ts";
import type { CallRecord } from "./call-record.ts";
import type { ActionCall, InvokePipeline } from "./invoke.ts";

/** Arguments that fit the schema, ready to be decided upon and run with. */
export interface PreparedArguments {
  readonly args: JsonObject;
  /** What was changed, in words. */
  readonly repairs: readonly string[];
  /** Whether an argument was brought into its normal form. */
  readonly isNormalized?: true;
}

/** What arguments are checked against: an action, or a tool of a surface. */
export interface ArgumentSpec extends Pick<Action, "inputSchema" | "examples" | "normalize"> {
  readonly name: string;
}

/** So many characters of JSON may be given. */
const ARGUMENT_LIMIT = 1024 * 1024;
/** So many may be agreed to by a person: nobody reads more, and showing them holds up everybody else. */
export const APPROVAL_ARGUMENT_LIMIT = 256 * 1024;
/** What was given is within its own limit; what handles put in its place is within another. */
const FILLED_ARGUMENT_LIMIT = 16 * 1024 * 1024;
const DEPTH_LIMIT = 256;
/** Longer arguments take several turns of the event loop, so that other calls have theirs. */
const LONG_ARGUMENT_SIZE = 64 * 1024;

/**
 * Checks arguments against the action's schema, repairing them where they do not fit as they are, or fit only because
 * the schema does not mind what it does not know, and brings them into their normal form. Throws `invalid_arguments` with what is wrong, the schema and a minimal
 * example, so that the next try can be right.
 */
export function prepareArguments(action: ArgumentSpec, own: ArgumentCopy): PreparedArguments {
  const { args, repairs } = repairArguments(action, own);
  const normal = normalizeArguments(action, args);
  const notes = normal.changed.map((argument) => `/${argument.replaceAll(".", "/")}: brought into its normal form`);
  return { args: normal.args, repairs: [...repairs, ...notes], ...(notes.length > 0 ? { isNormalized: true } : {}) };
}

function normalizeArguments(action: ArgumentSpec, args: JsonObject): NormalizedArgs {
  if (action.normalize === undefined) return { args, changed: [] };
  const normal = normalizeArgs(action.normalize, args);
  if (normal.changed.length === 0) return { args, changed: [] };
  const checked = checkArguments(action, copyFilledArguments(normal.args));
  if (!checked.ok) throw invalidArgumentsError(action, checked.mismatches);
  return { ...normal, args: checked.args };
}

function repairArguments(action: ArgumentSpec, own: ArgumentCopy): Omit<PreparedArguments, "isNormalized"> {
  const asGiven = checkArguments(action, own);
  const strange = asGiven.ok ? countUnknownFields(action, asGiven.args) : 0;
  if (asGiven.ok && strange === 0) return { args: asGiven.args, repairs: [] };
  const { args, repairs } = repairToSchema(action.inputSchema, JSON.parse(own.text));
  const mended = repairs.length === 0 ? asGiven : checkArguments(action, copyFilledArguments(args));
  if (asGiven.ok) {
    const better = repairs.length > 0 && mended.ok && countUnknownFields(action, mended.args) < strange;
    return better ? { args: mended.args, repairs } : { args: asGiven.args, repairs: [] };
  }
  if (mended.ok) return { args: mended.args, repairs };
  throw invalidArgumentsError(action, mended.mismatches);
}

/** How many fields the schema has no name for, where it names any. */
function countUnknownFields({ inputSchema }: ArgumentSpec, args: JsonObject): number {
  const { properties } = inputSchema;
  return isRecord(properties) ? Object.keys(args).filter((key) => !Object.hasOwn(properties, key)).length : 0;
}

/** An error about arguments that came out of the handler, with what every such error carries. */
export function addSchemaDetails(action: Action, thrown: unknown): unknown {
  if (!(thrown instanceof QmError) || thrown.code !== "invalid_arguments" || "input_schema" in thrown.details)
    return thrown;
  return new QmError("invalid_arguments", thrown.message, {
    cause: thrown,
    hint: thrown.hint ?? FIT_HINT,
    details: { ...thrown.details, ...toSchemaDetails(action) },
  });
}

/** The arguments a resource's operation gets, checked once more against that operation's own schema. */
export function toTargetArguments(action: Action, target: Action | undefined, args: JsonObject): JsonObject {
  if (target === undefined || action.canonical === undefined) return args;
  const made = checkArguments(
    target,
    copyFilledArguments(transformArgs(action.canonical.transform, action.entry, args)),
  );
  if (made.ok) return normalizeArguments(target, made.args).args;
  throw invalidArgumentsError(action, made.mismatches);
}

type ArgumentCheck =
  | { readonly ok: true; readonly args: JsonObject }
  | { readonly ok: false; readonly mismatches: readonly SchemaMismatch[] };

/** Arguments as a plain copy that nobody else can reach. */
interface ArgumentCopy {
  /** What they are; checking them fills in what the schema sets by itself. */
  readonly value: unknown;
  /** Their JSON, as they were given. */
  readonly text: string;
}

export function isLongArgument({ text }: ArgumentCopy): boolean {
  return text.length > LONG_ARGUMENT_SIZE;
}

function checkArguments({ inputSchema }: Pick<Action, "inputSchema">, { value, text }: ArgumentCopy): ArgumentCheck {
  const mismatches = getValidator(inputSchema, "arguments")(value, text.length);
  if (mismatches.length > 0) return { ok: false, mismatches };
  return isRecord(value)
    ? { ok: true, args: value as JsonObject }
    : { ok: false, mismatches: [{ path: "", message: "must be object" }] };
}

/** Arguments that came as the JSON of an object, which repairing would find out too late: what is in it is filled before. */
function unwrapJson(value: unknown): unknown {
  if (typeof value !== "string") return value;
  try {
    const inner: unknown = JSON.parse(value);
    return isRecord(inner) ? inner : value;
  } catch {
    return value;
  }
}

/** Arguments that handles and tokens were filled in, or that somebody has agreed to as they are. */
export function copyFilledArguments(args: unknown): ArgumentCopy {
  return copyArguments(args, FILLED_ARGUMENT_LIMIT);
}

/** A plain copy, so that nothing the caller does later reaches the handler, and no more than JSON gets in. */
export function copyArguments(args: unknown, limit = ARGUMENT_LIMIT): ArgumentCopy {
  const given = args ?? {};
  let text: string | undefined;
  try {
    if (isLargerThan(given, { nodes: limit / 2, depth: DEPTH_LIMIT }))
      throw tooLargeError(`are nested deeper than ${DEPTH_LIMIT} or endless`);
    text = JSON.stringify(given);
  } catch (thrown) {
    if (thrown instanceof QmError) throw thrown;
    throw new QmError("invalid_arguments", "the arguments are not JSON", {
      cause: thrown,
      hint: "Give a JSON object without cycles.",
    });
  }
  if (text === undefined)
    throw new QmError("invalid_arguments", "the arguments are not JSON", { hint: "Give a JSON object." });
  if (text.length > limit) throw tooLargeError(`have ${text.length} characters; at most ${limit} are taken`);
  return { value: JSON.parse(text), text };
}

function tooLargeError(what: string): QmError {
  return new QmError("too_large", `the arguments ${what}`, { hint: "Send less at a time." });
}

function invalidArgumentsError(action: ArgumentSpec, mismatches: readonly SchemaMismatch[]): QmError {
  const told = mismatches.map(({ path, message }) => `${path || "the arguments"} ${message}`).join("; ");
  return new QmError("invalid_arguments", `the arguments of ${action.name} do not fit: ${told}`, {
    details: { problems: mismatches.map((mismatch): JsonObject => ({ ...mismatch })), ...toSchemaDetails(action) },
    hint: FIT_HINT,
  });
}

const FIT_HINT = "Call it again with arguments that fit input_schema; example shows the shortest ones that do.";

/** The schema comes last: it is the one part that can be too long to show. */
function toSchemaDetails(action: ArgumentSpec): JsonObject {
  return toErrorDetails({ example: createMinimalExample(action), input_schema: action.inputSchema });
}

/** A call's arguments, ready to be checked. */
interface FilledArguments {
  readonly own: ArgumentCopy;
  /** Whether there are values in them that the model has only tokens for. */
  readonly hasTokens: boolean;
}

/**
 * The caller's arguments, with values in place of the handles and then of the tokens that stand for them. What was agreed to
 * is filled already.
 */
export async function fillArguments(
  door: Pick<InvokePipeline, "handles" | "anchors">,
  call: ActionCall,
  action: Action,
  record: CallRecord,
): Promise<FilledArguments> {
  const { caller, args, permit, inside } = call;
  if (permit !== undefined) return { own: copyFilledArguments(args), hasTokens: false };
  // What a handler passes on may come from anywhere: a handle in it would be looked up in the caller's name.
  let own = inside === undefined ? copyArguments(args) : copyFilledArguments(args);
  if (inside === undefined && mayContainHandles(own.text)) {
    const given = own.text;
    const { args: filled, from } = await door.handles.fill(caller, unwrapJson(own.value), {
      asHandles: action.handleArguments,
    });
    own = copyFilledArguments(filled);
    if (own.text !== given) record.filled(action, from, own.value);
  }
  const hasTokens = canHoldTokens(own.text);
  if (!hasTokens || action.keepsTokens) return { own, hasTokens };
  const { args: filled } = await door.anchors.fill(caller, own.value);
  return { own: copyFilledArguments(filled), hasTokens };
}
