import { RE2JS } from "re2js";
import type { JsonSchema } from "./action.ts";
import { messageOf, QmError } from "./errors.ts";
import { isRecord, outgrows } from "./json.ts";

const BYTES = 128 * 1024;
const NODES = 5_000;
const DEPTH = 64;

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
  const schema = plainCopy(raw);
  if (!isRecord(schema)) throw unsafe(`the schema is ${describeKind(raw)}, not an object`);
  if (use === "arguments" && schema.type !== "object") {
    const found = schema.type === undefined ? "has no type" : `has type ${JSON.stringify(schema.type)}`;
    throw unsafe(`the schema ${found}; the schema of an action's arguments needs type "object"`);
  }
  return { schema: schema as JsonSchema, costly: isCostly(schema) };
}

function describeKind(raw: unknown): string {
  return raw === null ? "null" : Array.isArray(raw) ? "an array" : `a ${typeof raw}`;
}

function plainCopy(raw: unknown): unknown {
  let text: string | undefined;
  try {
    if (outgrows(raw, { nodes: NODES, depth: DEPTH })) {
      throw unsafe(`the schema has more than ${NODES} parts, or is nested more than ${DEPTH} deep`);
    }
    text = JSON.stringify(raw);
  } catch (thrown) {
    throw thrown instanceof QmError ? thrown : unsafe(`the schema is not JSON: ${messageOf(thrown)}`);
  }
  if (text === undefined) return undefined;
  if (text.length > BYTES) throw unsafe(`the schema has ${text.length} bytes; at most ${BYTES} are taken`);
  return JSON.parse(text);
}

function isCostly(schema: unknown): boolean {
  if (typeof schema !== "object" || schema === null) return false;
  // Every part is looked at, whatever was found before: looking is also what refuses references to the outside.
  const parts = Object.values(schema).filter(isCostly);
  return (isRecord(schema) && hasCostlyKeyword(schema)) || parts.length > 0;
}

function hasCostlyKeyword(part: Record<string, unknown>): boolean {
  for (const keyword of ["$ref", "$dynamicRef", "$recursiveRef"]) {
    const target = part[keyword];
    if (typeof target === "string" && !target.startsWith("#")) {
      throw unsafe(`${keyword} ${JSON.stringify(target)} points outside the schema`);
    }
  }
  // References can multiply work without making the schema longer, and uniqueItems compares every pair.
  if (typeof part.$ref === "string" || typeof part.$dynamicRef === "string" || part.uniqueItems === true) return true;
  const patterns = isRecord(part.patternProperties) ? Object.keys(part.patternProperties) : [];
  if (typeof part.pattern === "string") patterns.push(part.pattern);
  return patterns.some((pattern) => linearPattern(pattern) === undefined);
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
