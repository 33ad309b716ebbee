import { isReservedName, isRespond } from "../catalog/spelling.ts";
import { durationMs } from "../core/duration.ts";
import { effects } from "../core/effect.ts";
import { messageOf, QmError } from "../core/errors.ts";
import { CALL_VARIABLES, compileCondition } from "../core/expression.ts";
import { clip, isRecord, outgrows } from "../core/json.ts";
import { actionName } from "../core/names.ts";
import { didYouMean } from "../core/nearest.ts";
import { normalForms } from "../core/normalize.ts";
import { guardSchema, type SchemaUse } from "../core/schema-guard.ts";
import { isStandardSchema, toJsonSchema } from "../core/standard-schema.ts";
import { isPlaceholder, placeholderProblem } from "./prose.ts";

/** One thing wrong with a registration. */
export interface FieldProblem {
  readonly field: string;
  readonly value: string;
  readonly problem: string;
}

type Fields = Readonly<Record<string, unknown>>;

/** What is wrong with a field's value, given the others, or undefined. */
type Check = (value: unknown, tool: Fields) => string | undefined;

// The types say the same, but registrations also come from JavaScript and from casts.
const checks: Readonly<Record<string, Check>> = {
  name: nameProblem,
  description: descriptionProblem,
  inputSchema: (value) => schemaProblem(value, "arguments"),
  outputSchema: optional((value) => schemaProblem(value, "result")),
  handler: (value) => (typeof value === "function" ? undefined : "is not a function"),
  effect: oneOf(effects),
  scope: oneOf(["generalist", "specialist"]),
  routing: optional(routingProblem),
  bypassRouting: bypassProblem,
  justification: justificationProblem,
  peerExposed: optional(peerProblem),
  requiresApproval: optional(approvalProblem),
  normalize: optional(normalizeProblem),
  loading: optional(oneOf(["always", "deferred"])),
  tags: optional(stringsProblem),
  aliases: optional(aliasesProblem),
  examples: optional(examplesProblem),
  timeout: optional(wholeNumberProblem),
  concurrency: optional(wholeNumberProblem),
  idempotent: optional(flagProblem),
};

/** Everything wrong with it, field by field. */
export function registrationProblems(tool: Fields): readonly FieldProblem[] {
  const fields = Object.keys(checks);
  const unknown = Object.keys(tool).filter((field) => !fields.includes(field));
  return [
    ...unknown.map((field) => ({ field, problem: `is no field of a registration${didYouMean(field, fields)}` })),
    ...fields.map((field) => ({ field, problem: checks[field]?.(tool[field], tool) })),
  ].flatMap(({ field, problem }) => (problem === undefined ? [] : [{ field, value: shown(tool[field]), problem }]));
}

const RESERVED = "is reserved: the runtime or a surface answers to it";

function nameProblem(value: unknown): string | undefined {
  if (typeof value !== "string" || value.trim() === "") return "is empty";
  if (isRespond(value)) return RESERVED;
  return thrownBy(() => actionName("tool", value));
}

function descriptionProblem(value: unknown): string | undefined {
  if (typeof value !== "string" || value.trim() === "") return "is empty: the model chooses by it";
  return isPlaceholder(value) ? "is a placeholder: the model chooses by it" : undefined;
}

function routingProblem(value: unknown, { scope }: Fields): string | undefined {
  const problem = oneOf(["routed", "bypass"])(value, {});
  if (problem !== undefined || value !== "bypass" || scope !== "generalist") return problem;
  return "is refused: a generalist tool touches what is shared and always routes; make it a specialist or drop the bypass";
}

function bypassProblem(value: unknown, { routing }: Fields): string | undefined {
  if (routing !== "bypass") return value === undefined ? undefined : 'is given, but routing is not "bypass"';
  const problem = placeholderProblem(isRecord(value) ? value.reason : undefined);
  return problem && `has a reason that ${problem}: say why this call must not be routed`;
}

function justificationProblem(value: unknown, { scope }: Fields): string | undefined {
  const problem = scope === "specialist" || value !== undefined ? placeholderProblem(value) : undefined;
  return problem && `${problem}: say why this work is private to one actor`;
}

function peerProblem(value: unknown, { scope }: Fields): string | undefined {
  if (value === true && scope === "specialist") return "is refused: a specialist tool is private to its actor";
  return flagProblem(value);
}

function schemaProblem(value: unknown, use: SchemaUse): string | undefined {
  if (!isStandardSchema(value) && !isRecord(value)) {
    return "is not a schema: give JSON Schema of an object, or a Standard Schema";
  }
  return thrownBy(() => guardSchema(toJsonSchema(value), use));
}

function approvalProblem(value: unknown): string | undefined {
  if (typeof value === "boolean" || typeof value === "function") return undefined;
  const condition = isRecord(value) ? value.autoApproveIf : undefined;
  if (!isRecord(value) || typeof condition !== "string")
    return 'is none of false, true, {autoApproveIf: "<CEL>", level?, expiresIn?} or a function';
  const { autoApproveIf: _, level, expiresIn, ...others } = value;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) return `has ${unknown}${didYouMean(unknown, ["autoApproveIf", "level", "expiresIn"])}`;
  if (level !== undefined && (typeof level !== "string" || level.trim() === "")) return "has a level that is no name";
  if (expiresIn !== undefined && (typeof expiresIn !== "string" || durationMs(expiresIn) === undefined))
    return "has an expiresIn that is no time such as 15m, 24h or 7d";
  return thrownBy(() => compileCondition(condition, CALL_VARIABLES));
}

function stringsProblem(value: unknown): string | undefined {
  const sound = (each: unknown) => typeof each === "string" && each.trim() !== "" && each.length <= 256;
  return Array.isArray(value) && value.every(sound) ? undefined : "is not a list of non-empty strings";
}

function aliasesProblem(value: unknown): string | undefined {
  const problem = stringsProblem(value);
  if (problem !== undefined || !Array.isArray(value)) return problem;
  const reserved: unknown = value.find(isReservedName);
  return reserved === undefined ? undefined : `holds ${JSON.stringify(reserved)}, which ${RESERVED}`;
}

function normalizeProblem(value: unknown): string | undefined {
  const isForm = (each: unknown) => typeof each === "function" || normalForms.some((form) => form === each);
  return isRecord(value) && Object.values(value).every(isForm)
    ? undefined
    : `does not give each argument a function or one of ${normalForms.join(", ")}`;
}

function examplesProblem(value: unknown): string | undefined {
  const sound = Array.isArray(value) && value.every((each) => isRecord(each) && isRecord(each.args));
  return sound ? undefined : "is not a list of {args, description?}";
}

function wholeNumberProblem(value: unknown): string | undefined {
  return Number.isSafeInteger(value) && Number(value) > 0 ? undefined : "is not a whole number above 0";
}

function flagProblem(value: unknown): string | undefined {
  return typeof value === "boolean" ? undefined : "is neither true nor false";
}

function oneOf(allowed: readonly string[]): Check {
  return (value) => {
    if (typeof value === "string" && allowed.includes(value)) return undefined;
    return `is none of ${allowed.join(", ")}${typeof value === "string" ? didYouMean(value, allowed) : ""}`;
  };
}

function optional(check: Check): Check {
  return (value, tool) => (value === undefined ? undefined : check(value, tool));
}

function thrownBy(work: () => unknown): string | undefined {
  try {
    work();
    return undefined;
  } catch (thrown) {
    const hint = thrown instanceof QmError && thrown.hint !== undefined ? ` (${thrown.hint})` : "";
    return messageOf(thrown) + hint;
  }
}

function shown(value: unknown): string {
  if (value === undefined) return "nothing";
  if (typeof value === "function") return "a function";
  try {
    if (outgrows(value, { nodes: 100, depth: 10 })) return "something large";
    return clip(JSON.stringify(value) ?? String(value), 80);
  } catch {
    return "something that cannot be shown";
  }
}
