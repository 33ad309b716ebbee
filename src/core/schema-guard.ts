import { RE2JS } from "re2js";
import type { JsonSchema } from "./action.ts";
import { bounded } from "./bounded.ts";
import { messageOf, QmError } from "./errors.ts";
import { clip, isRecord, outgrows } from "./json.ts";

const BYTES = 128 * 1024;
const NODES = 5_000;
const DEPTH = 64;
const PATTERNS = 100;
const INSPECT_MS = 250;

/** Arguments are always an object, a result may be anything. */
export type SchemaUse = "arguments" | "result";

/** What the validator must know of a schema before it trusts it with time. */
export interface GuardedSchema {
  readonly schema: JsonSchema;
  /** Whether checking a value against it can take more than about the time of walking both. */
  readonly costly: boolean;
}

/**
 * Takes a schema from anywhere and answers a plain, bounded copy of it, or throws `unsafe_schema` saying what is wrong:
 * too large, too deep, not JSON, pointing outside itself, or, for arguments, not the schema of an object.
 */
export function guardSchema(raw: unknown, use: SchemaUse): GuardedSchema {
  const text = textOf(raw);
  const schema: unknown = text === undefined ? undefined : JSON.parse(text);
  if (text === undefined || !isRecord(schema)) throw unsafe(`the schema is ${describeKind(raw)}, not an object`);
  if (use === "arguments" && schema.type !== "object") {
    const found = schema.type === undefined ? "has no type" : `has type ${JSON.stringify(schema.type)}`;
    throw unsafe(`the schema ${found}; the schema of an action's arguments needs type "object"`);
  }
  // Compiling patterns is the one part of this that can take long, whatever the engine.
  const inspect = () => isCostly(schema as JsonSchema);
  const patterned = text.includes('"pattern":"') || text.includes('"patternProperties":');
  const late = () => unsafe(`the schema took longer than ${INSPECT_MS} ms to look through and was stopped`);
  return { schema: schema as JsonSchema, costly: patterned ? bounded(INSPECT_MS, inspect, late) : inspect() };
}

function describeKind(raw: unknown): string {
  return raw === null ? "null" : Array.isArray(raw) ? "an array" : `a ${typeof raw}`;
}

/** Its JSON, or undefined for what has none. */
function textOf(raw: unknown): string | undefined {
  let text: string | undefined;
  try {
    if (outgrows(raw, { nodes: NODES, depth: DEPTH })) {
      throw unsafe(`the schema has more than ${NODES} parts, or is nested more than ${DEPTH} deep`);
    }
    text = JSON.stringify(raw);
  } catch (thrown) {
    throw thrown instanceof QmError ? thrown : unsafe(`the schema is not JSON: ${messageOf(thrown)}`);
  }
  if (text !== undefined && text.length > BYTES) {
    throw unsafe(`the schema has ${text.length} bytes; at most ${BYTES} are taken`);
  }
  return text;
}

/** Looks at every part, whatever was found before: looking is also what refuses a schema that could not be used. */
function isCostly(root: JsonSchema): boolean {
  let patterns = 0;
  let costly = false;
  const visit = (part: unknown): void => {
    if (Array.isArray(part)) part.forEach(visit);
    if (!isRecord(part)) return;
    checkType(part.type);
    checkReferences(part, root);
    const own = patternsOf(part);
    patterns += own.length;
    if (patterns > PATTERNS) throw unsafe(`the schema has more than ${PATTERNS} patterns`);
    // References can multiply work without making the schema longer, and uniqueItems compares every pair.
    if (typeof part.$ref === "string" || typeof part.$dynamicRef === "string" || part.uniqueItems === true)
      costly = true;
    if (part.format === "url" || own.some((pattern) => !isLinear(pattern))) costly = true;
    for (const [keyword, value] of Object.entries(part)) if (!DATA.has(keyword)) visit(value);
  };
  visit(root);
  return costly;
}

/** Keywords whose values are data, in which a `type` or a `$ref` means nothing. */
const DATA = new Set(["const", "default", "enum", "examples"]);
const TYPES = new Set(["array", "boolean", "integer", "null", "number", "object", "string"]);

function checkType(type: unknown): void {
  const named = Array.isArray(type) ? type : [type];
  const unknown = named.find((each) => typeof each === "string" && !TYPES.has(each));
  if (unknown !== undefined) throw unsafe(`the schema has the type ${JSON.stringify(unknown)}, which there is none of`);
}

function checkReferences(part: Record<string, unknown>, root: JsonSchema): void {
  for (const keyword of ["$ref", "$dynamicRef", "$recursiveRef"]) {
    const target = part[keyword];
    if (typeof target !== "string") continue;
    if (!target.startsWith("#")) throw unsafe(`${keyword} ${JSON.stringify(target)} points outside the schema`);
    if (target.startsWith("#/") && pointedAt(root, target) === undefined) {
      throw unsafe(`${keyword} ${JSON.stringify(target)} points at nothing`);
    }
  }
}

/** What a reference of the form `#/a/b` stands for. */
export function pointedAt(root: JsonSchema, reference: string): unknown {
  return reference
    .slice(1)
    .split("/")
    .filter((part) => part !== "")
    .map((part) => decoded(part).replace(/~1/g, "/").replace(/~0/g, "~"))
    .reduce<unknown>(
      (part, key) => (typeof part === "object" && part !== null ? Reflect.get(part, key) : undefined),
      root,
    );
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function patternsOf({ pattern, patternProperties }: Record<string, unknown>): readonly string[] {
  const own = isRecord(patternProperties) ? Object.keys(patternProperties) : [];
  return typeof pattern === "string" ? [...own, pattern] : own;
}

function isLinear(pattern: string): boolean {
  if (linearPattern(pattern) !== undefined) return true;
  try {
    new RegExp(pattern, "u");
    return false;
  } catch {
    throw unsafe(`the schema has the pattern ${JSON.stringify(clip(pattern, 60))}, which is none`);
  }
}

/** The pattern on the linear-time engine, or undefined when that engine does not know something in it. */
export function linearPattern(pattern: string): RE2JS | undefined {
  try {
    return RE2JS.compile(pattern);
  } catch {
    return undefined;
  }
}

function unsafe(message: string): QmError {
  return new QmError("unsafe_schema", message);
}
