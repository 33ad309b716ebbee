import { z } from "zod";
import { getErrorMessage } from "../../core/errors.ts";
import { clip, type Json } from "../../core/json.ts";
import { type JsonPath, parseJsonPath, readJsonPath, replaceJsonPath } from "../json-path.ts";
import { isList } from "../json-preview.ts";
import { defineDerivation, type PrimitiveOptions, pathShape } from "./derive.ts";
import { createReasonLog, type PrimitiveItems } from "./operation.ts";

/**
 * `string`: everything but texts as JSON; `text`: readable lines; `int`, `float`, `bool`: only if a text says exactly that;
 * `json`: the parsed text; `list`: a text split at the delimiter, anything else as the only item.
 */
export const coercions = ["string", "text", "int", "float", "bool", "json", "list"] as const;
export type Coercion = (typeof coercions)[number];

/** An item whose value cannot be converted is dropped, kept as it is, or gets null. */
export const coerceFailureModes = ["drop", "keep", "null"] as const;
type FailureMode = (typeof coerceFailureModes)[number];

export const delimiterShape = z
  .string()
  .refine(({ length }) => length > 0 && length <= 100, "a delimiter has 1 to 100 characters");

export const coerceAction = (parts: PrimitiveOptions) =>
  defineDerivation(parts, {
    entry: "coerce",
    description:
      "Turn every item, or the value at a path in it, into another type, as a new collection. Tells what cannot be turned.",
    fields: {
      to: z.enum(coercions).describe("string: as JSON; text: to be read; json: parsed; list: split."),
      path: pathShape.default("").describe("Only the value there."),
      delimiter: delimiterShape.default(","),
      failing: z.enum(coerceFailureModes).default("drop").describe("Items that cannot be turned."),
    },
    examples: [{ args: { target: "collection__7", to: "float", path: "price" } }],
    async derive({ target, path, ...options }, open) {
      const parsed = parseJsonPath(path);
      return coerceItems(await open(target), { ...options, path: parsed });
    },
  });

type CoerceOptions = Readonly<{ to: Coercion; path: JsonPath; delimiter: string; failing: FailureMode }>;

/** Converts the value at the path. The rest of the item stays as it is. */
export function coerceItems(inputs: PrimitiveItems, { to, path, delimiter, failing }: CoerceOptions) {
  const reasons = createReasonLog();
  let [input, failed, dropped] = [0, 0, 0];

  async function* items() {
    for await (const { content } of inputs) {
      const position = input++;
      const found = readJsonPath(content, path);
      const result = found.found ? converters[to](found.value, delimiter) : { reason: found.missing };
      if ("value" in result) {
        yield { content: replaceJsonPath(content, path, result.value) };
        continue;
      }
      failed++;
      reasons.add(position, result.reason);
      if (failing === "keep" || (failing === "null" && !found.found)) yield { content };
      else if (failing === "null") yield { content: replaceJsonPath(content, path, null) };
      else dropped++;
    }
  }

  return { items: items(), report: () => ({ input, dropped, failed, reasons: reasons.first() }) };
}

type CoerceResult = { readonly value: Json } | { readonly reason: string };
const TRUE = new Set(["true", "1", "yes", "on"]);
const FALSE = new Set(["false", "0", "no", "off"]);
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;

const converters: Readonly<Record<Coercion, (value: Json, delimiter: string) => CoerceResult>> = {
  string: (value) => ({ value: formatInline(value) }),
  text: (value) => ({ value: formatReadable(value) }),
  int: (value) => toInteger(toNumber(value)),
  float: toNumber,
  bool: toBoolean,
  json: (value) => (typeof value === "string" ? parseJsonText(value) : { value }),
  list: (value, delimiter) => ({ value: toList(value, delimiter) }),
};

function toNumber(value: Json): CoerceResult {
  if (typeof value === "number") return { value };
  if (typeof value === "boolean") return { value: value ? 1 : 0 };
  const text = typeof value === "string" ? value.trim() : "";
  const number = NUMBER.test(text) ? Number(text) : Number.NaN;
  return Number.isFinite(number) ? { value: number } : { reason: `${describeValue(value)} is not a number` };
}

/** Fails rather than cut off a fraction. */
function toInteger(result: CoerceResult): CoerceResult {
  if (!("value" in result) || Number.isSafeInteger(result.value)) return result;
  return { reason: `${describeValue(result.value)} is not a whole number that fits` };
}

function toBoolean(value: Json): CoerceResult {
  if (typeof value === "boolean") return { value };
  const text = typeof value === "number" || typeof value === "string" ? String(value).trim().toLowerCase() : "";
  if (TRUE.has(text)) return { value: true };
  return FALSE.has(text) ? { value: false } : { reason: `${describeValue(value)} is neither true nor false` };
}

function parseJsonText(text: string): CoerceResult {
  try {
    return { value: JSON.parse(text) as Json };
  } catch (thrown) {
    return { reason: `it is not JSON: ${getErrorMessage(thrown)}` };
  }
}

function toList(value: Json, delimiter: string): readonly Json[] {
  if (isList(value)) return value;
  if (typeof value !== "string") return [value];
  return value.trim() === "" ? [] : value.split(delimiter).map((part) => part.trim());
}

/** A list line by line, an object as `name: value` lines. */
export function formatReadable(value: Json): string {
  if (isList(value)) return value.map(formatInline).join("\n");
  if (typeof value !== "object" || value === null) return formatInline(value);
  const lines = Object.entries(value).map(([name, part]) => `${name}: ${formatInline(part)}`);
  return lines.join("\n");
}

function formatInline(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function describeValue(value: Json): string {
  if (typeof value === "object" && value !== null) return isList(value) ? "a list" : "an object";
  return clip(JSON.stringify(value), 60);
}
