import { type Effect, effects, type JsonSchema } from "../../core/action.ts";
import { getErrorMessage } from "../../core/errors.ts";
import { isRecord, type Json } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { didYouMean } from "../../core/nearest.ts";
import { guardSchema, type SchemaUse } from "../../core/schema-guard.ts";
import type { KeyPath } from "../../core/yaml.ts";
import type { SkillProblem, SkillType } from "./skill-file.ts";

type Fields = Readonly<Record<string, unknown>>;

/** A key of the front matter, or a line of the body, counted from 0. */
export type ProblemPlace = { readonly path: KeyPath } | { readonly bodyLine: number };
/** A rule that a skill of one type breaks. Its line is found later. */
export type FieldProblem = Omit<SkillProblem, "line"> & ProblemPlace;

export interface SkillSchema {
  readonly schema: JsonSchema;
  readonly problems: readonly FieldProblem[];
}

const INPUT_NAME = /^[A-Za-z_][\w-]{0,63}$/;
/** The inputs of a skill that declares none. */
const DEFAULT_INPUTS: Readonly<Record<SkillType, Fields>> = {
  instruction: {},
  llm: { input: "The text to work on." },
  code: { input: { description: "What to work on." } },
  method: { input: { description: "What to work on.", required: false } },
};

/** Reads `inputs`, or its older name `schema_hint`, as the schema of a skill's arguments. Never throws. */
export function readSkillInputs(fields: Fields, type: SkillType): SkillSchema {
  const key = fields.inputs === undefined && fields.schema_hint !== undefined ? "schema_hint" : "inputs";
  const given = (key === "inputs" ? fields.inputs : readSchemaHint(fields.schema_hint)) ?? DEFAULT_INPUTS[type];
  const { schema, problems } = readProperties(given, key, "arguments");
  if (key === "inputs") return { schema, problems };
  const message = "schema_hint is now called inputs";
  return { schema, problems: [{ rule: "inputs", level: "warning", path: [key], message }, ...problems] };
}

/** The older texts name a type or say `optional` in free words, so they become descriptions of any value. */
function readSchemaHint(hint: unknown): unknown {
  if (typeof hint === "string") return { input: { description: hint } };
  if (!isRecord(hint)) return hint;
  const toInput = (value: unknown) =>
    typeof value === "string" ? { description: value, required: !/\boptional\b/i.test(value) } : value;
  return Object.fromEntries(Object.entries(hint).map(([name, value]) => [name, toInput(value)]));
}

/** Reads `output`: a JSON Schema, or a mapping like that of `inputs`. Absent: the skill declares none. Never throws. */
export function readSkillOutput({ output }: Fields): SkillSchema | undefined {
  if (output === undefined) return undefined;
  return isRecord(output) && isSchema(output)
    ? guard(output, "output", "result")
    : readProperties(output, "output", "result");
}

const TYPE_NAMES = ["array", "boolean", "integer", "null", "number", "object", "string"];
const LIST_KEYWORDS = ["anyOf", "oneOf", "allOf", "enum"];

/** Whether a mapping is a JSON Schema itself. A property may be called `type`, but is then described in other words. */
const isSchema = (value: Fields): boolean =>
  Object.keys(value).length === 0 ||
  [value.type].flat().every((type) => TYPE_NAMES.includes(String(type))) ||
  LIST_KEYWORDS.some((keyword) => Array.isArray(value[keyword])) ||
  isRecord(value.properties);

/** A mapping from names to JSON Schemas or descriptions. A property is required unless it says otherwise. */
function readProperties(given: unknown, key: string, use: SchemaUse): SkillSchema {
  const empty = { type: "object" };
  if (!isRecord(given)) {
    const message = "expected a mapping from each name to its description or its JSON Schema";
    return { schema: empty, problems: [createFieldError(key, message)] };
  }
  const properties: Record<string, Json> = {};
  const required: string[] = [];
  const problems: FieldProblem[] = [];
  for (const [name, value] of Object.entries(given)) {
    const path = [key, name];
    const isText = typeof value === "string" || value === null;
    if (!INPUT_NAME.test(name))
      problems.push(createFieldError(key, `${quoteName(name)} is not letters, digits, _ and -`, path));
    else if (!isText && !isRecord(value))
      problems.push(createFieldError(key, "expected a description or JSON Schema", path));
    else {
      const { required: isRequired, ...schema } = isText ? toTextSchema(value) : value;
      properties[name] = (Array.isArray(isRequired) ? { ...schema, required: isRequired } : schema) as Json;
      if (isRequired !== false && schema.default === undefined) required.push(name);
    }
  }
  const found = guard({ type: "object", properties, required, additionalProperties: false }, key, use);
  return { schema: found.schema, problems: [...problems, ...found.problems] };
}

const toTextSchema = (description: string | null): Record<string, unknown> =>
  description === null ? { type: "string" } : { type: "string", description };

/** The schema comes from a file, so it may be too large or have patterns that cannot be run safely. */
function guard(schema: unknown, key: string, use: SchemaUse): SkillSchema {
  try {
    return { schema: guardSchema(schema, use), problems: [] };
  } catch (thrown) {
    return { schema: { type: "object" }, problems: [createFieldError(key, getErrorMessage(thrown))] };
  }
}

/** Reads `effect`. An unknown one is an error: it could be stronger than the default. Never throws. */
export function readSkillEffect({ effect }: Fields): { effect: Effect; problems: readonly FieldProblem[] } {
  const known = effects.find((each) => each === effect);
  if (known !== undefined || effect === undefined) return { effect: known ?? "external", problems: [] };
  const near = typeof effect === "string" ? didYouMean(effect, effects) : "";
  const problem = createFieldError("effect", `expected ${effects.join(", ")}${near}`);
  return { effect: "stateful", problems: [problem] };
}

export const createFieldError = (key: string, message: string, path: KeyPath = [key]): FieldProblem => ({
  rule: key,
  level: "error",
  path,
  message,
});
