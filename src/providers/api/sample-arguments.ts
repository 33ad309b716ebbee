import type { JsonSchema } from "../../core/action.ts";
import { isRecord, type Json, type JsonObject } from "../../core/json.ts";
import { resolvePointer } from "../../core/schema-guard.ts";

const DEPTH = 12;

/** Arguments with the required fields, made from a converted schema. They may still miss a pattern or a condition. */
export function createSampleArguments(schema: JsonSchema): JsonObject {
  const made = sample(schema, schema, 0);
  return isRecord(made) ? (made as JsonObject) : {};
}

function sample(root: JsonSchema, raw: unknown, depth: number): Json {
  if (!isRecord(raw) || depth > DEPTH) return null;
  const { $ref, enum: choices, const: only, anyOf, allOf, type } = raw;
  if (typeof $ref === "string") return sample(root, resolvePointer(root, $ref), depth + 1);
  if (only !== undefined) return only as Json;
  if (Array.isArray(choices)) return (choices[0] ?? null) as Json;
  const parts: Json[] = Array.isArray(allOf) ? allOf.map((part) => sample(root, part, depth + 1)) : [];
  if (Array.isArray(anyOf))
    parts.push(
      sample(
        root,
        anyOf.find((each) => isRecord(each) && each.type !== "null"),
        depth + 1,
      ),
    );
  const kind = Array.isArray(type) ? type.find((each) => each !== "null") : type;
  if (kind === "object" || isRecord(raw.properties))
    return Object.assign({}, ...parts.filter(isRecord), sampleObject(root, raw, depth));
  if (kind === "array") {
    const count = typeof raw.minItems === "number" ? Math.min(raw.minItems, 5) : 1;
    return Array.from({ length: count }, () => sample(root, raw.items ?? { type: "string" }, depth + 1));
  } else if (kind === "string") return sampleText(raw);
  else if (kind === "integer" || kind === "number") return sampleNumber(raw);
  else if (kind === "boolean") return true;
  else if (kind === "null") return null;
  if (parts.length > 0 && parts.every(isRecord)) return Object.assign({}, ...parts);
  return parts[0] ?? "text";
}

function sampleObject(root: JsonSchema, raw: Record<string, unknown>, depth: number): JsonObject {
  const { properties } = raw;
  // A variant may only say which fields of the object it needs.
  const variant: unknown = Array.isArray(raw.anyOf) ? raw.anyOf[0] : undefined;
  const required = [raw.required, isRecord(variant) ? variant.required : undefined];
  const names = required
    .flatMap((each) => (Array.isArray(each) ? each : []))
    .filter((name) => typeof name === "string");
  const known = isRecord(properties) ? properties : {};
  return Object.fromEntries(
    names.map((name) => [name, sample(root, Object.hasOwn(known, name) ? known[name] : { type: "string" }, depth + 1)]),
  );
}

const FORMATS: Readonly<Record<string, string>> = {
  "date-time": "2026-01-02T03:04:05Z",
  date: "2026-01-02",
  time: "03:04:05Z",
  uri: "https://example.com/",
  url: "https://example.com/",
  email: "user@example.com",
  uuid: "123e4567-e89b-42d3-a456-426614174000",
  ipv4: "192.0.2.1",
  hostname: "example.com",
};

function sampleText({ format, pattern, minLength, maxLength }: Record<string, unknown>): string {
  // Identifiers such as ^AC[0-9a-fA-F]{32}$ are common.
  const id =
    typeof pattern === "string"
      ? /^\^?\(?([A-Za-z]*)(?:\|[A-Za-z|]*\))?\[0-9a-f(?:A-F)?\]\{(\d{1,3})\}\$?$/.exec(pattern)
      : null;
  if (id !== null) return `${id[1]}${"0".repeat(Number(id[2]))}`;
  const text = (typeof format === "string" && Object.hasOwn(FORMATS, format) && FORMATS[format]) || "text";
  const least = typeof minLength === "number" ? Math.min(minLength, 1000) : 0;
  const most = typeof maxLength === "number" ? maxLength : Number.POSITIVE_INFINITY;
  return text.padEnd(least, "x").slice(0, Math.max(least, Math.min(most, 1000)));
}

function sampleNumber({ minimum, exclusiveMinimum, maximum, multipleOf }: Record<string, unknown>): number {
  const least = typeof minimum === "number" ? minimum : typeof exclusiveMinimum === "number" ? exclusiveMinimum + 1 : 1;
  const value = typeof maximum === "number" && least > maximum ? maximum : least;
  return typeof multipleOf === "number" && multipleOf > 0 ? Math.ceil(value / multipleOf) * multipleOf : value;
}
