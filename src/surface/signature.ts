import type { Action, JsonSchema } from "../core/action.ts";
import { clip, getOwn, type Json } from "../core/json.ts";
import { oneLine } from "../core/plain-text.ts";

const UNION_LIMIT = 4;
const WORD_LIMIT = 24;

/**
 * The parameters of an action on one line, required ones first: `(path: string, limit?: integer)`. After `atMost` of
 * them the rest is counted, so that a schema of any size stays a line.
 */
export function signatureOf({ inputSchema }: Pick<Action, "inputSchema">, atMost = 8): string {
  const properties = Object.entries(objectOf(getOwn(inputSchema, "properties")));
  const listed = getOwn(inputSchema, "required");
  const required = new Set(Array.isArray(listed) ? listed : []);
  const ordered = [
    ...properties.filter(([name]) => required.has(name)),
    ...properties.filter(([name]) => !required.has(name)),
  ];
  const shown = ordered
    .slice(0, atMost)
    .map(([name, schema]) => `${word(name)}${required.has(name) ? "" : "?"}: ${typeOf(schema)}`);
  const rest = ordered.length - shown.length;
  return `(${[...shown, ...(rest > 0 ? [`+${rest}`] : [])].join(", ")})`;
}

function typeOf(schema: Json, depth = 0): string {
  const { type, enum: values, const: only, items, anyOf, oneOf } = objectOf(schema);
  if (only !== undefined) return literal(only);
  if (Array.isArray(values)) return union(values.map(literal));
  const either = anyOf ?? oneOf;
  if (Array.isArray(either) && depth < 2) return union(either.map((each) => typeOf(each, depth + 1)));
  if (type === "array" && depth < 2) return `${items === undefined ? "any" : bracketed(typeOf(items, depth + 1))}[]`;
  if (type === "object" && depth < 2) return shapeOf(objectOf(schema));
  if (Array.isArray(type)) return union(type.map((each) => word(String(each))));
  return typeof type === "string" ? word(type) : "any";
}

/** The keys of an object inside: `{start, end}`, and how many more. */
function shapeOf(schema: JsonSchema): string {
  const names = Object.keys(objectOf(getOwn(schema, "properties"))).map(word);
  if (names.length === 0) return "object";
  const rest = names.length - UNION_LIMIT;
  return `{${[...names.slice(0, UNION_LIMIT), ...(rest > 0 ? [`+${rest}`] : [])].join(", ")}}`;
}

function union(members: readonly string[]): string {
  const different = [...new Set(members)];
  const shown = different.slice(0, UNION_LIMIT).join("|");
  return different.length > UNION_LIMIT ? `${shown}|…` : shown || "any";
}

function bracketed(type: string): string {
  return type.includes("|") ? `(${type})` : type;
}

/** A schema comes from outside: what it holds must not look like a line of the answer's own. */
function word(text: string): string {
  return clip(oneLine(text), WORD_LIMIT);
}

function literal(value: Json): string {
  return word(JSON.stringify(value));
}

function objectOf(value: Json | undefined): JsonSchema {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonSchema) : {};
}
