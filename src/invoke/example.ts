import type { Action, JsonSchema } from "../core/action.ts";
import { isRecord, type Json, type JsonObject } from "../core/json.ts";
import { pointedAt } from "../core/schema-guard.ts";
import { validatorOf } from "../core/validator.ts";

const DEPTH = 6;

/** The shortest arguments that fit: a declared example, or one made from what is required. Undefined when none is found. */
export function minimalExample(action: Pick<Action, "inputSchema" | "examples">): JsonObject | undefined {
  const declared = action.examples
    .map((example) => example.args)
    .sort((a, b) => JSON.stringify(a).length - JSON.stringify(b).length);
  return [...declared, sample(action.inputSchema, action.inputSchema, DEPTH)].find((made): made is JsonObject =>
    fits(action.inputSchema, made),
  );
}

function fits(schema: JsonSchema, made: unknown): boolean {
  if (!isRecord(made)) return false;
  const text = JSON.stringify(made);
  return validatorOf(schema, "arguments")(JSON.parse(text), text.length).length === 0;
}

function sample(schema: unknown, root: JsonSchema, depth: number): Json {
  if (!isRecord(schema) || depth === 0) return null;
  if (typeof schema.$ref === "string") return sample(pointedAt(root, schema.$ref), root, depth - 1);
  if (schema.const !== undefined) return schema.const as Json;
  if (schema.default !== undefined) return schema.default as Json;
  for (const choices of [schema.enum, schema.examples])
    if (Array.isArray(choices) && choices.length > 0) return choices[0] as Json;
  for (const branches of [schema.anyOf, schema.oneOf])
    if (Array.isArray(branches)) return sample(branches[0], root, depth - 1);
  return ofType(Array.isArray(schema.type) ? schema.type[0] : schema.type, schema, root, depth);
}

function ofType(type: unknown, schema: Record<string, unknown>, root: JsonSchema, depth: number): Json {
  switch (type) {
    case "object": {
      const properties = isRecord(schema.properties) ? schema.properties : {};
      const required = Array.isArray(schema.required) ? schema.required.map(String) : [];
      return Object.fromEntries(required.map((key) => [key, sample(properties[key], root, depth - 1)]));
    }
    case "array":
      return Array.from({ length: Math.min(amount(schema.minItems), 3) }, () => sample(schema.items, root, depth - 1));
    case "integer":
    case "number":
      return smallest(schema);
    case "boolean":
      return false;
    case "string":
      return text(schema);
    default:
      return null;
  }
}

function smallest({ minimum, exclusiveMinimum, maximum }: Record<string, unknown>): number {
  if (typeof minimum === "number") return minimum;
  if (typeof exclusiveMinimum === "number") return Math.floor(exclusiveMinimum) + 1;
  return typeof maximum === "number" ? Math.min(maximum, 1) : 1;
}

const FORMATS: Readonly<Record<string, string>> = {
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

function text({ format, minLength }: Record<string, unknown>): string {
  const known = typeof format === "string" ? FORMATS[format] : undefined;
  return known ?? "text".padEnd(Math.min(amount(minLength), 64), "x");
}

function amount(value: unknown): number {
  return typeof value === "number" && value > 0 ? value : 0;
}
