import type { JsonSchema } from "../core/action.ts";
import { isRecord } from "../core/json.ts";

/** Arguments after repair, and what was changed, as `/path: what`. */
export interface Repaired {
  readonly args: unknown;
  readonly repairs: readonly string[];
}

const WRAPPERS = new Set(["args", "arguments", "input", "parameters", "params", "tool_args", "kwargs"]);
const DEPTH = 16;
const RESPELT_FIELDS = 200;

/**
 * Brings arguments closer to the schema where a model's slip is plain: JSON inside a string, a second wrapping,
 * numbers and booleans as strings, one item where a list is wanted, a key in another case. Only what the schema asks
 * for is touched, and whoever calls this checks the result: a repair can help but never let something through.
 */
export function repairArgs(schema: JsonSchema, given: unknown): Repaired {
  const repairs: string[] = [];
  const unwrapped = unwrap(schema, given, repairs);
  return { args: repair(schema, unwrapped, "", repairs, 0), repairs };
}

function unwrap(schema: JsonSchema, given: unknown, repairs: string[]): unknown {
  let args = given ?? {};
  for (let turn = 0; turn < 3; turn++) {
    const parsed = typeof args === "string" ? parsedAs(args, isRecord) : undefined;
    if (parsed !== undefined) {
      repairs.push("/: JSON text read as an object");
      args = parsed;
    }
    if (!isRecord(args)) return args;
    const [key, ...others] = Object.keys(args);
    if (key === undefined || others.length > 0 || !WRAPPERS.has(key) || key in propertiesOf(schema)) return args;
    const inner = args[key];
    if (!isRecord(inner) && typeof inner !== "string") return args;
    repairs.push(`/${key}: unwrapped`);
    args = inner;
  }
  return args;
}

function repair(schema: unknown, value: unknown, path: string, repairs: string[], depth: number): unknown {
  if (!isRecord(schema) || depth > DEPTH) return value;
  const fitted = stepTowards(wantedTypes(schema), schema, value, path, repairs);
  if (Array.isArray(fitted) && isRecord(schema.items)) {
    return fitted.map((item, index) => repair(schema.items, item, `${path}/${index}`, repairs, depth + 1));
  }
  return isRecord(fitted) && isRecord(schema.properties) ? repairObject(schema, fitted, path, repairs, depth) : fitted;
}

function repairObject(
  schema: Schema,
  value: Record<string, unknown>,
  path: string,
  repairs: string[],
  depth: number,
): unknown {
  const properties = propertiesOf(schema);
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const entries: [string, unknown][] = [];
  const fields = Object.entries(value);
  // Nobody misspells this many, and comparing them all would hold the process.
  const respells = fields.length <= RESPELT_FIELDS;
  for (const [given, part] of fields) {
    const isKnown = Object.hasOwn(properties, given) || !respells;
    const key = isKnown ? given : (respelt(given, properties, value) ?? given);
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

/** One step towards a wanted type, when the value has none of them. */
function stepTowards(
  wanted: readonly string[],
  schema: Schema,
  value: unknown,
  path: string,
  repairs: string[],
): unknown {
  if (wanted.length === 0 || wanted.some((type) => isOf(type, value))) return value;
  for (const type of wanted) {
    const made = conversions[type]?.(value, schema);
    if (made === undefined) continue;
    repairs.push(`${path || "/"}: ${kindOf(value)} read as ${type}`);
    return made;
  }
  return value;
}

type Schema = Readonly<Record<string, unknown>>;

type Conversion = (value: unknown, schema: Schema) => unknown;

const NUMBER = /^-?(?:0|[1-9]\d{0,15})(?:\.\d{1,15})?(?:[eE][+-]?\d{1,3})?$/;

const conversions: Readonly<Record<string, Conversion>> = {
  object: (value) => (typeof value === "string" ? parsedAs(value, isRecord) : undefined),
  array: (value, schema) => {
    if (typeof value === "string") {
      const parsed = parsedAs(value, Array.isArray);
      if (parsed !== undefined) return parsed;
    }
    const itemTypes = isRecord(schema.items) ? wantedTypes(schema.items) : [];
    return itemTypes.some((type) => isOf(type, value)) ? [value] : undefined;
  },
  integer: (value) => numeric(value, Number.isSafeInteger),
  number: (value) => numeric(value, Number.isFinite),
  boolean: (value) => {
    const text = typeof value === "string" ? value.trim().toLowerCase() : "";
    return text === "true" ? true : text === "false" ? false : undefined;
  },
  string: (value) => (typeof value === "number" || typeof value === "boolean" ? String(value) : undefined),
};

function numeric(value: unknown, accepts: (number: number) => boolean): number | undefined {
  if (typeof value !== "string" || !NUMBER.test(value.trim())) return undefined;
  const number = Number(value);
  return accepts(number) ? number : undefined;
}

function isOf(type: string, value: unknown): boolean {
  switch (type) {
    case "object":
      return isRecord(value);
    case "array":
      return Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    case "null":
      return value === null;
    default:
      return typeof value === type;
  }
}

/** The types a schema asks for, looking one level into its alternatives. */
function wantedTypes(schema: Schema): readonly string[] {
  const { type } = schema;
  if (typeof type === "string") return [type];
  if (Array.isArray(type)) return type.filter((each): each is string => typeof each === "string");
  const alternatives = [schema.anyOf, schema.oneOf].find(Array.isArray) ?? [];
  return alternatives.flatMap((each) => (isRecord(each) && typeof each.type === "string" ? [each.type] : []));
}

function allowsNull(schema: unknown): boolean {
  if (!isRecord(schema)) return true;
  const types = wantedTypes(schema);
  return types.length === 0 || types.includes("null");
}

/** The one property that differs from `given` only in case and separators, unless it was given as well. */
function respelt(given: string, properties: Schema, value: Record<string, unknown>): string | undefined {
  const plain = bare(given);
  const same = Object.keys(properties).filter((key) => bare(key) === plain && !Object.hasOwn(value, key));
  return same.length === 1 ? same[0] : undefined;
}

function bare(key: string): string {
  return key.replace(/[^\p{L}\p{N}]/gu, "").toLowerCase();
}

function propertiesOf(schema: Schema): Schema {
  return isRecord(schema.properties) ? schema.properties : {};
}

function parsedAs<T>(text: string, is: (value: unknown) => value is T): T | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    const parsed: unknown = JSON.parse(text);
    return is(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

function kindOf(value: unknown): string {
  return value === null ? "null" : Array.isArray(value) ? "list" : typeof value;
}
