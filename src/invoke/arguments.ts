import { transformArgs } from "../catalog/resource.ts";
import type { Action } from "../core/action.ts";
import { facts, QmError } from "../core/errors.ts";
import { isRecord, type JsonObject, outgrows } from "../core/json.ts";
import type { Mismatch } from "../core/json-schema.ts";
import { type NormalizedArgs, normalizeArgs } from "../core/normalize.ts";
import { validatorOf } from "../core/validator.ts";
import { minimalExample } from "./example.ts";
import { repairArgs } from "./repair.ts";

/** Arguments that fit the schema, ready to be decided upon and run with. */
export interface Prepared {
  readonly args: JsonObject;
  /** What was changed, in words. */
  readonly repairs: readonly string[];
  /** Whether an argument was brought into its normal form. */
  readonly isNormalized?: true;
}

/** What arguments are checked against: an action, or a tool of a surface. */
export interface Checkable extends Pick<Action, "inputSchema" | "examples" | "normalize"> {
  readonly name: string;
}

/** So many characters of JSON may be given. */
export const SIZE_LIMIT = 1024 * 1024;
/** So many may be agreed to by a person: nobody reads more, and showing them holds up everybody else. */
export const AGREED_LIMIT = 256 * 1024;
/** What was given is within its own limit; what handles put in its place is within another. */
const FILLED_LIMIT = 16 * 1024 * 1024;
const DEPTH_LIMIT = 256;
/** Longer arguments take several turns of the event loop, so that other calls have theirs. */
const LONG = 64 * 1024;

/**
 * Checks arguments against the action's schema, repairing them where they do not fit as they are, or fit only because
 * the schema does not mind what it does not know, and brings them into their normal form. Throws `invalid_arguments` with what is wrong, the schema and a minimal
 * example, so that the next try can be right.
 */
export function prepareArgs(action: Checkable, own: OwnArgs): Prepared {
  const { args, repairs } = repaired(action, own);
  const normal = normalized(action, args);
  const notes = normal.changed.map((argument) => `/${argument.replaceAll(".", "/")}: brought into its normal form`);
  return { args: normal.args, repairs: [...repairs, ...notes], ...(notes.length > 0 ? { isNormalized: true } : {}) };
}

function normalized(action: Checkable, args: JsonObject): NormalizedArgs {
  if (action.normalize === undefined) return { args, changed: [] };
  const normal = normalizeArgs(action.normalize, args);
  if (normal.changed.length === 0) return { args, changed: [] };
  const checked = check(action, filledCopy(normal.args));
  if (!checked.ok) throw refusal(action, checked.mismatches);
  return { ...normal, args: checked.args };
}

function repaired(action: Checkable, own: OwnArgs): Omit<Prepared, "isNormalized"> {
  const asGiven = check(action, own);
  const strange = asGiven.ok ? strangers(action, asGiven.args) : 0;
  if (asGiven.ok && strange === 0) return { args: asGiven.args, repairs: [] };
  const { args, repairs } = repairArgs(action.inputSchema, JSON.parse(own.text));
  const mended = repairs.length === 0 ? asGiven : check(action, filledCopy(args));
  if (asGiven.ok) {
    const better = repairs.length > 0 && mended.ok && strangers(action, mended.args) < strange;
    return better ? { args: mended.args, repairs } : { args: asGiven.args, repairs: [] };
  }
  if (mended.ok) return { args: mended.args, repairs };
  throw refusal(action, mended.mismatches);
}

/** How many fields the schema has no name for, where it names any. */
function strangers({ inputSchema }: Checkable, args: JsonObject): number {
  const { properties } = inputSchema;
  return isRecord(properties) ? Object.keys(args).filter((key) => !Object.hasOwn(properties, key)).length : 0;
}

/** An error about arguments that came out of the handler, with what every such error carries. */
export function withSchema(action: Action, thrown: unknown): unknown {
  if (!(thrown instanceof QmError) || thrown.code !== "invalid_arguments" || "input_schema" in thrown.details)
    return thrown;
  return new QmError("invalid_arguments", thrown.message, {
    cause: thrown,
    hint: thrown.hint ?? FIT_HINT,
    details: { ...thrown.details, ...shape(action) },
  });
}

/** The arguments a resource's operation gets, checked once more against that operation's own schema. */
export function targetArgs(action: Action, target: Action | undefined, args: JsonObject): JsonObject {
  if (target === undefined || action.canonical === undefined) return args;
  const made = check(target, filledCopy(transformArgs(action.canonical.transform, action.entry, args)));
  if (made.ok) return normalized(target, made.args).args;
  throw refusal(action, made.mismatches);
}

type Checked =
  | { readonly ok: true; readonly args: JsonObject }
  | { readonly ok: false; readonly mismatches: readonly Mismatch[] };

/** Arguments as a plain copy that nobody else can reach. */
export interface OwnArgs {
  /** What they are; checking them fills in what the schema sets by itself. */
  readonly value: unknown;
  /** Their JSON, as they were given. */
  readonly text: string;
}

export function isLong({ text }: OwnArgs): boolean {
  return text.length > LONG;
}

function check({ inputSchema }: Pick<Action, "inputSchema">, { value, text }: OwnArgs): Checked {
  const mismatches = validatorOf(inputSchema, "arguments")(value, text.length);
  if (mismatches.length > 0) return { ok: false, mismatches };
  return isRecord(value)
    ? { ok: true, args: value as JsonObject }
    : { ok: false, mismatches: [{ path: "", message: "must be object" }] };
}

/** Arguments that came as the JSON of an object, which repairing would find out too late: what is in it is filled before. */
export function unwrapped(value: unknown): unknown {
  if (typeof value !== "string") return value;
  try {
    const inner: unknown = JSON.parse(value);
    return isRecord(inner) ? inner : value;
  } catch {
    return value;
  }
}

/** Arguments that handles and tokens were filled in, or that somebody has agreed to as they are. */
export function filledCopy(args: unknown): OwnArgs {
  return ownArgs(args, FILLED_LIMIT);
}

/** A plain copy, so that nothing the caller does later reaches the handler, and no more than JSON gets in. */
export function ownArgs(args: unknown, limit = SIZE_LIMIT): OwnArgs {
  const given = args ?? {};
  let text: string | undefined;
  try {
    if (outgrows(given, { nodes: limit / 2, depth: DEPTH_LIMIT }))
      throw tooLarge(`are nested deeper than ${DEPTH_LIMIT} or endless`);
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
  if (text.length > limit) throw tooLarge(`have ${text.length} characters; at most ${limit} are taken`);
  return { value: JSON.parse(text), text };
}

function tooLarge(what: string): QmError {
  return new QmError("too_large", `the arguments ${what}`, { hint: "Send less at a time." });
}

function refusal(action: Checkable, mismatches: readonly Mismatch[]): QmError {
  const told = mismatches.map(({ path, message }) => `${path || "the arguments"} ${message}`).join("; ");
  return new QmError("invalid_arguments", `the arguments of ${action.name} do not fit: ${told}`, {
    details: { problems: mismatches.map((mismatch): JsonObject => ({ ...mismatch })), ...shape(action) },
    hint: FIT_HINT,
  });
}

const FIT_HINT = "Call it again with arguments that fit input_schema; example shows the shortest ones that do.";

/** The schema comes last: it is the one part that can be too long to show. */
function shape(action: Checkable): JsonObject {
  return facts({ example: minimalExample(action), input_schema: action.inputSchema });
}
