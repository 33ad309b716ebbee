import type { JsonSchema } from "./action.ts";
import { getErrorMessage, QmError } from "./errors.ts";
import { clip, isLargerThan, isRecord } from "./json.ts";
import { isUnicodePattern, LinearPattern, measurePattern } from "./linear-pattern.ts";

const BYTES = 128 * 1024;
const NODES = 5_000;
const DEPTH = 64;
const PATTERNS = 100;
/** The size of all patterns together, with counted repetitions written out. */
const PATTERN_SIZE = 20_000;

/** Arguments are always an object; a result may be anything. */
export type SchemaUse = "arguments" | "result";

/** A plain, bounded copy of an untrusted schema. Throws `unsafe_schema` if it cannot be used safely. */
export function guardSchema(raw: unknown, use: SchemaUse): JsonSchema {
  const text = toJsonText(raw);
  const schema: unknown = text === undefined ? undefined : JSON.parse(text);
  if (text === undefined || !isRecord(schema)) throw unsafe(`is ${describeKind(raw)}, not an object`);
  if (use === "arguments" && schema.type !== "object") {
    const found = schema.type === undefined ? "has no type" : `has type ${JSON.stringify(schema.type)}`;
    throw unsafe(`${found}; the schema of an action's arguments needs type "object"`);
  }
  checkParts(schema as JsonSchema);
  return schema as JsonSchema;
}

const describeKind = (raw: unknown) => (raw === null ? "null" : Array.isArray(raw) ? "an array" : `a ${typeof raw}`);

function toJsonText(raw: unknown): string | undefined {
  let isLarge: boolean;
  let text: string | undefined;
  try {
    isLarge = isLargerThan(raw, { nodes: NODES, depth: DEPTH });
    text = isLarge ? undefined : JSON.stringify(raw);
  } catch (thrown) {
    throw unsafe(`is not JSON: ${getErrorMessage(thrown)}`);
  }
  if (isLarge) throw unsafe(`has more than ${NODES} parts, or is nested more than ${DEPTH} deep`);
  if (text !== undefined && text.length > BYTES) throw unsafe(`has ${text.length} bytes; the limit is ${BYTES}`);
  return text;
}

function checkParts(root: JsonSchema): void {
  let patterns = 0;
  let size = 0;
  const visit = (part: unknown): void => {
    if (Array.isArray(part)) part.forEach(visit);
    if (!isRecord(part)) return;
    checkType(part.type);
    checkReferences(part, root);
    for (const pattern of listPatterns(part)) {
      size += measurePattern(pattern);
      if (++patterns > PATTERNS) throw unsafe(`has more than ${PATTERNS} patterns`);
      if (size > PATTERN_SIZE) throw unsafe("has patterns that are too large");
      checkPattern(pattern);
    }
    for (const [keyword, value] of Object.entries(part)) if (!DATA_KEYWORDS.has(keyword)) visit(value);
  };
  visit(root);
}

/** Keywords whose values are data, where `type` and `$ref` mean nothing. */
const DATA_KEYWORDS: ReadonlySet<string> = new Set(["const", "default", "enum", "examples"]);
const TYPES = new Set(["array", "boolean", "integer", "null", "number", "object", "string"]);

function checkType(type: unknown): void {
  const named = Array.isArray(type) ? type : [type];
  const unknown = named.find((each) => typeof each === "string" && !TYPES.has(each));
  if (unknown !== undefined) throw unsafe(`has the unknown type ${JSON.stringify(unknown)}`);
}

function checkReferences(part: Record<string, unknown>, root: JsonSchema): void {
  for (const keyword of ["$ref", "$dynamicRef", "$recursiveRef"]) {
    const target = part[keyword];
    if (typeof target !== "string") continue;
    const reference = `${keyword} ${JSON.stringify(target)}`;
    if (!target.startsWith("#")) throw unsafe(`has a ${reference} that points outside it`);
    if (target.startsWith("#/") && resolvePointer(root, target) === undefined)
      throw unsafe(`has a ${reference} that points at nothing`);
  }
}

export function resolvePointer(root: JsonSchema, reference: string): unknown {
  let found: unknown = root;
  for (const part of reference.slice(2).split("/")) {
    if (typeof found !== "object" || found === null) return undefined;
    found = Reflect.get(found, decodePart(part).replace(/~1/g, "/").replace(/~0/g, "~"));
  }
  return found;
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function listPatterns({ pattern, patternProperties }: Record<string, unknown>): readonly string[] {
  const own = isRecord(patternProperties) ? Object.keys(patternProperties) : [];
  return typeof pattern === "string" ? [...own, pattern] : own;
}

function checkPattern(pattern: string): void {
  const linear = isUnicodePattern(pattern) ? undefined : LinearPattern.compile(pattern);
  if (linear === "too_large") throw unsafe("has patterns that are too large");
  const quoted = JSON.stringify(clip(pattern, 60));
  if (linear === "syntax") throw unsafe(`has the pattern ${quoted}, which is not a regular expression`);
}

const unsafe = (problem: string): QmError => new QmError("unsafe_schema", `the schema ${problem}`);
