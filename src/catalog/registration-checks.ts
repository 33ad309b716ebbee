import { effects } from "../core/action.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { CALL_VARIABLES, compileCondition } from "../core/expression.ts";
import { clip, isLargerThan, isRecord, omitUndefined } from "../core/json.ts";
import { actionName } from "../core/names.ts";
import { didYouMean } from "../core/nearest.ts";
import { normalForms } from "../core/normalize-arguments.ts";
import { parseDuration } from "../core/runtime.ts";
import { guardSchema, type SchemaUse } from "../core/schema-guard.ts";
import { isStandardSchema, toJsonSchema } from "../core/standard-schema.ts";
import { isReservedName, isRespondName } from "./spelling.ts";

export type RegistrationProblem = { readonly field: string; readonly value?: string; readonly problem: string };
type RegistrationFields = Readonly<Record<string, unknown>>;
type FieldCheck = (value: unknown, tool: RegistrationFields) => string | undefined;

// Repeats what the types say, because registrations also come from JavaScript and from casts.
const checks: Readonly<Record<string, FieldCheck>> = {
  name: checkName,
  description: checkDescription,
  inputSchema: (value) => checkSchema(value, "arguments"),
  outputSchema: makeOptional((value) => checkSchema(value, "result")),
  handler: (value) => (typeof value === "function" ? undefined : "is not a function"),
  effect: createChoiceCheck(effects),
  scope: createChoiceCheck(["generalist", "specialist"]),
  routing: makeOptional(checkRouting),
  bypassRouting: checkBypass,
  justification: checkJustification,
  peerExposed: makeOptional(checkPeerExposed),
  requiresApproval: makeOptional(checkApprovalRule),
  normalize: makeOptional(checkNormalize),
  loading: makeOptional(createChoiceCheck(["always", "deferred"])),
  tags: makeOptional(checkStrings),
  aliases: makeOptional(checkAliases),
  examples: makeOptional(checkExamples),
  timeout: makeOptional(checkWholeNumber),
  concurrency: makeOptional(checkWholeNumber),
  idempotent: makeOptional(checkFlag),
  runsAction: makeOptional(checkChosenAction),
};

export function findRegistrationProblems(tool: RegistrationFields): readonly RegistrationProblem[] {
  const fields = Object.keys(checks);
  const unknown = Object.keys(tool).filter((field) => !fields.includes(field));
  return [
    ...unknown.map((field) => ({ field, problem: `is no field of a registration${didYouMean(field, fields)}` })),
    ...fields.map((field) => ({ field, problem: checks[field]?.(tool[field], tool) })),
  ].flatMap(({ field, problem }) =>
    problem === undefined ? [] : [omitUndefined({ field, value: formatFieldValue(tool[field]), problem })],
  );
}

const RESERVED = "is reserved: the runtime or a surface answers to it";

function checkName(value: unknown): string | undefined {
  if (typeof value !== "string" || value.trim() === "") return "is empty";
  return isRespondName(value) ? RESERVED : catchMessage(() => actionName("tool", value));
}

function checkDescription(value: unknown): string | undefined {
  if (typeof value !== "string" || value.trim() === "") return "is empty: the model chooses by it";
  return isPlaceholder(value) ? "is a placeholder: the model chooses by it" : undefined;
}

function checkRouting(value: unknown, { scope }: RegistrationFields): string | undefined {
  const problem = createChoiceCheck(["routed", "bypass"])(value, {});
  if (problem !== undefined || value !== "bypass" || scope !== "generalist") return problem;
  return "is refused: a generalist tool touches what is shared and always routes; make it a specialist or drop the bypass";
}

function checkBypass(value: unknown, { routing }: RegistrationFields): string | undefined {
  if (routing !== "bypass") return value === undefined ? undefined : 'is given, but routing is not "bypass"';
  const problem = checkReason(isRecord(value) ? value.reason : undefined);
  return problem && `has a reason that ${problem}: say why this call must not be routed`;
}

function checkJustification(value: unknown, { scope }: RegistrationFields): string | undefined {
  const problem = scope === "specialist" || value !== undefined ? checkReason(value) : undefined;
  return problem && `${problem}: say why this work is private to one actor`;
}

function checkPeerExposed(value: unknown, { scope }: RegistrationFields): string | undefined {
  if (value === true && scope === "specialist") return "is refused: a specialist tool is private to its actor";
  return checkFlag(value);
}

function checkSchema(value: unknown, use: SchemaUse): string | undefined {
  if (!isStandardSchema(value) && !isRecord(value)) {
    return "is not a schema: give JSON Schema of an object, or a Standard Schema";
  }
  return catchMessage(() => guardSchema(toJsonSchema(value), use))?.replace(/^it is /, "is ");
}

function checkApprovalRule(value: unknown): string | undefined {
  if (typeof value === "boolean" || typeof value === "function") return undefined;
  const condition = isRecord(value) ? value.autoApproveIf : undefined;
  if (!isRecord(value) || typeof condition !== "string")
    return 'is none of false, true, {autoApproveIf: "<CEL>", level?, expiresIn?} or a function';
  const { autoApproveIf: _, level, expiresIn, ...others } = value;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) return `has ${unknown}${didYouMean(unknown, ["autoApproveIf", "level", "expiresIn"])}`;
  if (level !== undefined && (typeof level !== "string" || level.trim() === "")) return "has a level that is no name";
  if (expiresIn !== undefined && (typeof expiresIn !== "string" || parseDuration(expiresIn) === undefined))
    return "has an expiresIn that is no time such as 15m, 24h or 7d";
  return catchMessage(() => compileCondition(condition, CALL_VARIABLES));
}

function checkChosenAction(value: unknown, { inputSchema }: RegistrationFields): string | undefined {
  const { argument, prefix = "", ...others } = isRecord(value) ? value : {};
  if (typeof argument !== "string" || typeof prefix !== "string" || Object.keys(others).length > 0)
    return 'is not {argument: "<name>", prefix?: "<text>"}';
  const isSchema = isStandardSchema(inputSchema) || isRecord(inputSchema);
  const { properties } = isSchema ? toJsonSchema(inputSchema) : {};
  return isRecord(properties) && Object.hasOwn(properties, argument)
    ? undefined
    : "names no argument of its inputSchema";
}

function checkStrings(value: unknown): string | undefined {
  const sound = (each: unknown) => typeof each === "string" && each.trim() !== "" && each.length <= 256;
  return Array.isArray(value) && value.every(sound) ? undefined : "is not a list of non-empty strings";
}

function checkAliases(value: unknown): string | undefined {
  const problem = checkStrings(value);
  if (problem !== undefined || !Array.isArray(value)) return problem;
  const reserved: unknown = value.find(isReservedName);
  return reserved === undefined ? undefined : `holds ${JSON.stringify(reserved)}, which ${RESERVED}`;
}

function checkNormalize(value: unknown): string | undefined {
  const isForm = (each: unknown) => typeof each === "function" || normalForms.some((form) => form === each);
  return isRecord(value) && Object.values(value).every(isForm)
    ? undefined
    : `does not give each argument a function or one of ${normalForms.join(", ")}`;
}

function checkExamples(value: unknown): string | undefined {
  const sound = Array.isArray(value) && value.every((each) => isRecord(each) && isRecord(each.args));
  return sound ? undefined : "is not a list of {args, description?}";
}

function checkWholeNumber(value: unknown): string | undefined {
  return Number.isSafeInteger(value) && Number(value) > 0 ? undefined : "is not a whole number above 0";
}

function checkFlag(value: unknown): string | undefined {
  return typeof value === "boolean" ? undefined : "is neither true nor false";
}

function createChoiceCheck(allowed: readonly string[]): FieldCheck {
  return (value) => {
    if (typeof value === "string" && allowed.includes(value)) return undefined;
    return `is none of ${allowed.join(", ")}${typeof value === "string" ? didYouMean(value, allowed) : ""}`;
  };
}

function makeOptional(check: FieldCheck): FieldCheck {
  return (value, tool) => (value === undefined ? undefined : check(value, tool));
}

function catchMessage(work: () => unknown): string | undefined {
  try {
    work();
    return undefined;
  } catch (thrown) {
    const hint = thrown instanceof QmError && thrown.hint !== undefined ? ` (${thrown.hint})` : "";
    return getErrorMessage(thrown) + hint;
  }
}

/** Undefined for a schema of a library: its inner objects tell a developer nothing. */
function formatFieldValue(value: unknown): string | undefined {
  if (value === undefined) return "nothing";
  if (isStandardSchema(value) || (isRecord(value) && "_def" in value)) return undefined;
  if (typeof value === "function") return "a function";
  try {
    if (isLargerThan(value, { nodes: 100, depth: 10 })) return "something large";
    return clip(JSON.stringify(value) ?? String(value), 80);
  } catch {
    return "something that cannot be shown";
  }
}

const PLACEHOLDERS = new Set(
  "todo tbd fixme wip xxx na none null nil placeholder lorem asdf foo bar later test temp tmp".split(" "),
);
const MIN_LETTERS = 12;
const MIN_WORDS = 3;

/** Why a text does not count as a reason, or undefined if it does. Auditors read it, so a placeholder is worse than none. */
function checkReason(text: unknown): string | undefined {
  if (typeof text !== "string" || text.trim() === "") return "is missing";
  const words = splitWords(text);
  if (PLACEHOLDERS.has(words[0] ?? "") || isPlaceholder(text)) return "is a placeholder";
  const letters = words.join("").length;
  const spaced = /\p{Script=Latin}|\p{Script=Cyrillic}|\p{Script=Greek}/u.test(text);
  if (letters < MIN_LETTERS / (spaced ? 1 : 2) || (spaced && new Set(words).size < MIN_WORDS))
    return "is too short to be a reason";
  return undefined;
}

function isPlaceholder(text: string): boolean {
  const words = splitWords(text);
  return words.join("") === "na" || words.every((word) => PLACEHOLDERS.has(word));
}

const splitWords = (text: string): readonly string[] => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
