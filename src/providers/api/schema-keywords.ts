import { clip, isRecord, type Json } from "../../core/json.ts";
import { dereference, type OpenApiObject } from "./read-document.ts";

/** Keywords that mean the same in OpenAPI and JSON Schema. */
export const COPIED = [
  "enum",
  "const",
  "format",
  "minLength",
  "maxLength",
  "minimum",
  "maximum",
  "exclusiveMinimum",
  "exclusiveMaximum",
  "multipleOf",
  "minItems",
  "maxItems",
  "uniqueItems",
  "minProperties",
  "maxProperties",
] as const;
const TYPES = new Set(["array", "boolean", "integer", "null", "number", "object", "string"]);
/** Types that documents use though OpenAPI does not have them. */
const VENDOR_TYPES: Readonly<Record<string, string>> = {
  int: "integer",
  long: "integer",
  float: "number",
  double: "number",
  decimal: "number",
  bool: "boolean",
  date: "string",
  datetime: "string",
  file: "string",
  text: "string",
  uuid: "string",
};
const DESCRIPTION_CHARS = 240;

export const FILE_SCHEMA = {
  description: "A file: its text, or an object with its content.",
  anyOf: [
    { type: "string" },
    {
      type: "object",
      properties: {
        filename: { type: "string" },
        content: { type: "string", description: "The content as text." },
        base64: { type: "string", description: "The content as base64." },
        content_type: { type: "string" },
      },
      additionalProperties: false,
    },
  ],
} as const;

/** Keywords beside a `$ref` that say more than the reference. */
export const SIBLINGS: ReadonlySet<string> = new Set([
  ...COPIED,
  ...["type", "pattern", "properties", "required", "items", "additionalProperties", "allOf", "anyOf", "oneOf"],
]);

/** Whether a field of a form is a file. */
export function isFileSchema(document: OpenApiObject, raw: unknown): boolean {
  const schema = dereference(document, raw) ?? {};
  const isString = schema.type === "string" || (schema.type === undefined && schema.contentMediaType !== undefined);
  const isEncoded = schema.contentEncoding !== undefined || /json/.test(String(schema.contentMediaType));
  const isBinary = schema.format === "binary" || (schema.contentMediaType !== undefined && !isEncoded);
  return schema.type === "file" || (isString && isBinary);
}

/** Required fields, without those that only responses have, and those that nothing allows. */
export function listRequired(document: OpenApiObject, schema: OpenApiObject): string[] {
  if (!Array.isArray(schema.required)) return [];
  const properties = isRecord(schema.properties) ? schema.properties : {};
  const names = schema.required.filter((name): name is string => typeof name === "string" && name !== "__proto__");
  // A field that is required and not allowed would refuse everything.
  const isClosed = schema.additionalProperties === false;
  return [...new Set(names)].filter((name) => {
    if (!Object.hasOwn(properties, name)) return !isClosed;
    return dereference(document, properties[name])?.readOnly !== true;
  });
}

export function toType(raw: OpenApiObject): Json | undefined {
  const named = (Array.isArray(raw.type) ? raw.type : [raw.type]).filter((type) => typeof type === "string");
  const known = named.map((type) =>
    TYPES.has(type) ? type : Object.hasOwn(VENDOR_TYPES, type) ? VENDOR_TYPES[type] : undefined,
  );
  // With an unknown type among them, anything may fit.
  if (known.length === 0 || known.includes(undefined))
    return isRecord(raw.properties) && known.length === 0 ? "object" : undefined;
  const types = [...new Set(known as string[])];
  return types.length === 1 ? (types[0] ?? "string") : types;
}

export function allowNull(made: Record<string, Json>): Record<string, Json> {
  const { description, ...rest } = made;
  if (Object.keys(rest).length === 0) return made;
  return { ...(description === undefined ? {} : { description }), anyOf: [rest, { type: "null" }] };
}

/** OpenAPI 3.0 has exclusive limits as flags. */
export function fixLimits(made: Record<string, Json>, raw: OpenApiObject): void {
  for (const [flag, limit] of [
    ["exclusiveMinimum", "minimum"],
    ["exclusiveMaximum", "maximum"],
  ] as const) {
    if (typeof made[flag] !== "boolean") continue;
    delete made[flag];
    if (raw[flag] !== true || typeof made[limit] !== "number") continue;
    made[flag] = made[limit];
    delete made[limit];
  }
}

/** A `default` is told, not filled in: the server applies its own. */
export function describe(own: string | undefined, raw: OpenApiObject): string | undefined {
  const said =
    own ?? (typeof raw.description === "string" ? raw.description : typeof raw.title === "string" ? raw.title : "");
  const preset = raw.default === undefined || raw.default === null ? "" : clip(JSON.stringify(raw.default), 60);
  const text = [cleanText(said, DESCRIPTION_CHARS), preset && `Default: ${preset}.`]
    .filter((each) => each !== "")
    .join(" ");
  return text === "" ? undefined : text;
}

/** One line without markup of links. */
export function cleanText(text: string, limit: number): string {
  const plain = text
    .slice(0, limit * 8)
    .replace(/\[([^\][]{1,200})\]\([^()\s]{1,500}\)/g, "$1")
    .replace(/<\/?[a-zA-Z][^<>]{0,200}>/g, "")
    .replace(/\s+/g, " ")
    .trim();
  return clip(plain, limit);
}

export const isPlain = (value: unknown): value is Json => value !== undefined && typeof value !== "function";
