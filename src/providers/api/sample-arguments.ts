import type { JsonSchema } from "../../core/action.ts";
import { isRecord, type Json, type JsonObject } from "../../core/json.ts";
import { resolvePointer } from "../../core/schema-guard.ts";
import { samplePattern } from "./sample-pattern.ts";

const DEPTH = 12;
/** A schema that requires itself many times over has no end. */
const PART_LIMIT = 2_000;

/** Arguments made from a converted schema: the required fields, or `all`. They may still miss a condition. */
export function createSampleArguments(schema: JsonSchema, fields: "required" | "all" = "required"): JsonObject {
  const made = new Sampler(schema, fields === "all").sample(schema, 0);
  return isRecord(made) ? (made as JsonObject) : {};
}

class Sampler {
  readonly #root: JsonSchema;
  readonly #isComplete: boolean;
  #parts = 0;

  constructor(root: JsonSchema, isComplete: boolean) {
    this.#root = root;
    this.#isComplete = isComplete;
  }

  sample(raw: unknown, depth: number): Json {
    if (!isRecord(raw) || depth > DEPTH || ++this.#parts > PART_LIMIT) return null;
    const { $ref, enum: choices, const: only, anyOf, allOf, type } = raw;
    if (typeof $ref === "string" && allOf === undefined)
      return this.sample(resolvePointer(this.#root, $ref), depth + 1);
    if (only !== undefined) return only as Json;
    if (Array.isArray(choices)) return (choices.find((each) => each !== null) ?? null) as Json;
    const parts: Json[] = Array.isArray(allOf) ? allOf.map((part) => this.sample(part, depth + 1)) : [];
    if (Array.isArray(anyOf))
      parts.push(
        this.sample(
          anyOf.find((each) => isRecord(each) && each.type !== "null"),
          depth + 1,
        ),
      );
    const kind = Array.isArray(type) ? type.find((each) => each !== "null") : type;
    if (kind === "object" || (kind === undefined && isRecord(raw.properties)))
      return Object.assign({}, ...parts.filter(isRecord), this.#object(raw, depth));
    if (kind === "array") {
      const count = Math.min(Math.max(Number(raw.minItems ?? 1), this.#isComplete ? 2 : 1), Number(raw.maxItems ?? 5));
      const items = raw.items ?? { type: "string" };
      const listed = Array.from({ length: Math.min(count, 5) }, () => this.sample(items, depth + 1));
      return raw.uniqueItems === true && Number(raw.minItems ?? 1) <= 1 ? listed.slice(0, 1) : listed;
    }
    if (kind === "string") return parts.find((each) => typeof each === "string") ?? sampleText(raw);
    if (kind === "integer" || kind === "number") return sampleNumber(raw, kind === "integer");
    if (kind === "boolean") return true;
    if (kind === "null") return null;
    if (parts.length > 0 && parts.every(isRecord)) return Object.assign({}, ...parts);
    return parts[0] ?? (raw.pattern === undefined && raw.format === undefined ? "text" : sampleText(raw));
  }

  #object(raw: Record<string, unknown>, depth: number): JsonObject {
    const known = isRecord(raw.properties) ? raw.properties : {};
    // A variant may only say which fields of the object it needs.
    const variant: unknown = Array.isArray(raw.anyOf) ? raw.anyOf[0] : undefined;
    // Optional fields further inside are often exclusive.
    const all = this.#isComplete && depth <= 1 ? Object.keys(known) : [];
    const named = [raw.required, isRecord(variant) ? variant.required : undefined, all]
      .flatMap((each) => (Array.isArray(each) ? each : []))
      .filter((name) => typeof name === "string");
    const names = [...new Set(named)];
    const least = typeof raw.minProperties === "number" ? raw.minProperties : 0;
    for (const name of Object.keys(known)) if (names.length < least && !names.includes(name)) names.push(name);
    const others = raw.additionalProperties;
    if (this.#isComplete && names.length === 0 && others !== false)
      return { key: this.sample(isRecord(others) ? others : { type: "string" }, depth + 1) };
    return Object.fromEntries(
      names.map((name) => [
        name,
        this.sample(Object.hasOwn(known, name) ? known[name] : { type: "string" }, depth + 1),
      ]),
    );
  }
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
  ipv6: "2001:db8::1",
  hostname: "example.com",
};

function sampleText({ format, pattern, minLength, maxLength }: Record<string, unknown>): string {
  const least = typeof minLength === "number" ? Math.min(minLength, 1000) : 0;
  const most = typeof maxLength === "number" ? maxLength : Number.POSITIVE_INFINITY;
  if (typeof pattern === "string") return samplePattern(pattern, least);
  const text = (typeof format === "string" && Object.hasOwn(FORMATS, format) && FORMATS[format]) || "text";
  return text.padEnd(least, "x").slice(0, Math.max(least, Math.min(most, 1000)));
}

function sampleNumber(
  { minimum, exclusiveMinimum, maximum, exclusiveMaximum, multipleOf }: Record<string, unknown>,
  isWhole: boolean,
): number {
  const step = isWhole ? 1 : 0.01;
  const least =
    typeof minimum === "number" ? minimum : typeof exclusiveMinimum === "number" ? exclusiveMinimum + step : 1;
  const most =
    typeof maximum === "number" ? maximum : typeof exclusiveMaximum === "number" ? exclusiveMaximum - step : least;
  const value = isWhole ? Math.ceil(Math.min(least, most)) : Math.min(least, most);
  return typeof multipleOf === "number" && multipleOf > 0 ? Math.ceil(value / multipleOf) * multipleOf : value;
}
