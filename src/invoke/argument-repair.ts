import type { Action, JsonSchema } from "../core/action.ts";
import { isRecord, type Json, type JsonObject } from "../core/json.ts";
import { resolvePointer } from "../core/schema-guard.ts";
import { getValidator } from "../core/schema-validator.ts";

const WRAPPERS = new Set(["args", "arguments", "input", "parameters", "params", "tool_args", "kwargs"]);
const REPAIR_DEPTH = 16;
const RESPELLED_FIELD_LIMIT = 200;

/** Fixes plain slips of a model. The caller validates the result, so a repair cannot let anything through. */
export function repairToSchema(schema: JsonSchema, given: unknown) {
  const repairs: string[] = [];
  const unwrapped = unwrap(schema, given, repairs);
  return { args: repair(schema, unwrapped, "", repairs, 0), repairs };
}

function unwrap(schema: JsonSchema, given: unknown, repairs: string[]): unknown {
  let args = given ?? {};
  for (let turn = 0; turn < 3; turn++) {
    const parsed = typeof args === "string" ? parseJsonAs(args, isRecord) : undefined;
    if (parsed !== undefined) {
      repairs.push("/: JSON text read as an object");
      args = parsed;
    }
    if (!isRecord(args)) return args;
    const [key, ...others] = Object.keys(args);
    if (key === undefined || others.length > 0 || !WRAPPERS.has(key) || key in getProperties(schema)) return args;
    const inner = args[key];
    // Another text is a value of an unknown argument, which the validation reports by its name.
    if (!isRecord(inner) && (typeof inner !== "string" || parseJsonAs(inner, isRecord) === undefined)) return args;
    repairs.push(`/${key}: unwrapped`);
    args = inner;
  }
  return args;
}

function repair(schema: unknown, value: unknown, path: string, repairs: string[], depth: number): unknown {
  if (!isRecord(schema) || depth > REPAIR_DEPTH) return value;
  const fitted = convertOnce(schema, value, path, repairs);
  if (Array.isArray(fitted) && isRecord(schema.items)) {
    return fitted.map((item, index) => repair(schema.items, item, `${path}/${index}`, repairs, depth + 1));
  }
  return isRecord(fitted) && isRecord(schema.properties) ? repairObject(schema, fitted, path, repairs, depth) : fitted;
}

function repairObject(
  schema: SchemaObject,
  value: Record<string, unknown>,
  path: string,
  repairs: string[],
  depth: number,
): unknown {
  const properties = getProperties(schema);
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const entries: [string, unknown][] = [];
  const fields = Object.entries(value);
  // Comparing more names would block the process.
  const respells = fields.length <= RESPELLED_FIELD_LIMIT;
  for (const [given, part] of fields) {
    const isKnown = Object.hasOwn(properties, given) || !respells;
    const key = isKnown ? given : (findRespelledKey(given, properties, value) ?? given);
    if (key !== given) repairs.push(`${path}/${given}: read as ${key}`);
    const wanted = Object.hasOwn(properties, key) ? properties[key] : undefined;
    if (part === null && wanted !== undefined && !required.has(key) && !allowsNull(wanted)) {
      repairs.push(`${path}/${key}: null left out`);
      continue;
    }
    entries.push([key, wanted === undefined ? part : repair(wanted, part, `${path}/${key}`, repairs, depth + 1)]);
  }
  return Object.fromEntries(entries);
}

/** Converts a value that has none of the wanted types to the first one possible. */
function convertOnce(schema: SchemaObject, value: unknown, path: string, repairs: string[]): unknown {
  const wanted = getWantedTypes(schema);
  if (wanted.length === 0 || wanted.some((type) => hasType(type, value))) return value;
  for (const type of wanted) {
    const converted = conversions[type]?.(value, schema);
    if (converted === undefined) continue;
    const from = value === null ? "null" : Array.isArray(value) ? "list" : typeof value;
    repairs.push(`${path || "/"}: ${from} read as ${type}`);
    return converted;
  }
  return value;
}

type SchemaObject = Readonly<Record<string, unknown>>;
const NUMBER = /^-?(?:0|[1-9]\d{0,15})(?:\.\d{1,15})?(?:[eE][+-]?\d{1,3})?$/;

const conversions: Readonly<Record<string, (value: unknown, schema: SchemaObject) => unknown>> = {
  object: (value) => (typeof value === "string" ? parseJsonAs(value, isRecord) : undefined),
  array: (value, schema) => {
    if (typeof value === "string") {
      const parsed = parseJsonAs(value, Array.isArray);
      if (parsed !== undefined) return parsed;
    }
    const itemTypes = isRecord(schema.items) ? getWantedTypes(schema.items) : [];
    return itemTypes.some((type) => hasType(type, value)) ? [value] : undefined;
  },
  integer: (value) => parseNumber(value, Number.isSafeInteger),
  number: (value) => parseNumber(value, Number.isFinite),
  boolean: (value) => {
    const text = typeof value === "string" ? value.trim().toLowerCase() : "";
    return text === "true" ? true : text === "false" ? false : undefined;
  },
  string: (value) => (typeof value === "number" || typeof value === "boolean" ? String(value) : undefined),
};

function parseNumber(value: unknown, accepts: (number: number) => boolean): number | undefined {
  if (typeof value !== "string" || !NUMBER.test(value.trim())) return undefined;
  const number = Number(value);
  return accepts(number) ? number : undefined;
}

function hasType(type: string, value: unknown): boolean {
  if (type === "object") return isRecord(value);
  if (type === "array") return Array.isArray(value);
  if (type === "integer") return Number.isInteger(value);
  return type === "null" ? value === null : typeof value === type;
}

/** The types a schema allows, looking one level into `anyOf` and `oneOf`. */
function getWantedTypes(schema: SchemaObject): readonly string[] {
  const { type } = schema;
  if (typeof type === "string") return [type];
  if (Array.isArray(type)) return type.filter((each): each is string => typeof each === "string");
  const alternatives = [schema.anyOf, schema.oneOf].find(Array.isArray) ?? [];
  return alternatives.flatMap((each) => (isRecord(each) && typeof each.type === "string" ? [each.type] : []));
}

function allowsNull(schema: unknown): boolean {
  if (!isRecord(schema)) return true;
  const types = getWantedTypes(schema);
  return types.length === 0 || types.includes("null");
}

/** The one property that differs from `given` only in case and separators, unless it is present too. */
function findRespelledKey(given: string, properties: SchemaObject, value: Record<string, unknown>): string | undefined {
  const normalizeKey = (key: string) => key.replace(/[^\p{L}\p{N}]/gu, "").toLowerCase();
  const plain = normalizeKey(given);
  const same = Object.keys(properties).filter((key) => normalizeKey(key) === plain && !Object.hasOwn(value, key));
  return same.length === 1 ? same[0] : undefined;
}

const getProperties = (schema: SchemaObject): SchemaObject => (isRecord(schema.properties) ? schema.properties : {});

function parseJsonAs<T>(text: string, is: (value: unknown) => value is T): T | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    const parsed: unknown = JSON.parse(text);
    return is(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

const SAMPLE_DEPTH = 6;

/** The shortest arguments that fit: a declared example, or one made of the required properties. */
export function createMinimalExample(action: Pick<Action, "inputSchema" | "examples">): JsonObject | undefined {
  const declared = action.examples
    .map((example) => example.args)
    .sort((a, b) => JSON.stringify(a).length - JSON.stringify(b).length);
  return [...declared, sampleValue(action.inputSchema, action.inputSchema, SAMPLE_DEPTH)].find(
    (example): example is JsonObject => fitsSchema(action.inputSchema, example),
  );
}

function fitsSchema(schema: JsonSchema, example: unknown): boolean {
  if (!isRecord(example)) return false;
  const text = JSON.stringify(example);
  return getValidator(schema, "arguments")(JSON.parse(text), text.length).length === 0;
}

function sampleValue(schema: unknown, root: JsonSchema, depth: number): Json {
  if (!isRecord(schema) || depth === 0) return null;
  if (typeof schema.$ref === "string") return sampleValue(resolvePointer(root, schema.$ref), root, depth - 1);
  if (schema.const !== undefined) return schema.const as Json;
  if (schema.default !== undefined) return schema.default as Json;
  for (const choices of [schema.enum, schema.examples])
    if (Array.isArray(choices) && choices.length > 0) return choices[0] as Json;
  for (const branches of [schema.anyOf, schema.oneOf])
    if (Array.isArray(branches)) return sampleValue(branches[0], root, depth - 1);
  return sampleType(Array.isArray(schema.type) ? schema.type[0] : schema.type, schema, root, depth);
}

function sampleType(type: unknown, schema: Record<string, unknown>, root: JsonSchema, depth: number): Json {
  switch (type) {
    case "object": {
      const properties = getProperties(schema);
      const required = Array.isArray(schema.required) ? schema.required.map(String) : [];
      return Object.fromEntries(required.map((key) => [key, sampleValue(properties[key], root, depth - 1)]));
    }
    case "array": {
      const length = Math.min(toCount(schema.minItems), 3);
      return Array.from({ length }, () => sampleValue(schema.items, root, depth - 1));
    }
    case "string":
      return sampleText(schema);
    default:
      return type === "integer" || type === "number" ? sampleNumber(schema) : type === "boolean" ? false : null;
  }
}

function sampleNumber({ minimum, exclusiveMinimum, maximum }: Record<string, unknown>): number {
  if (typeof minimum === "number") return minimum;
  if (typeof exclusiveMinimum === "number") return Math.floor(exclusiveMinimum) + 1;
  return typeof maximum === "number" ? Math.min(maximum, 1) : 1;
}

const FORMAT_SAMPLES: Readonly<Record<string, string>> = {
  date: "2026-01-31",
  "date-time": "2026-01-31T12:00:00Z",
  time: "12:00:00Z",
  email: "name@example.com",
  uri: "https://example.com",
  url: "https://example.com",
  uuid: "00000000-0000-4000-8000-000000000000",
  ipv4: "192.0.2.1",
  hostname: "example.com",
};

function sampleText({ format, minLength }: Record<string, unknown>): string {
  const known = typeof format === "string" ? FORMAT_SAMPLES[format] : undefined;
  return known ?? "text".padEnd(Math.min(toCount(minLength), 64), "x");
}

const toCount = (value: unknown): number => (typeof value === "number" && value > 0 ? value : 0);
