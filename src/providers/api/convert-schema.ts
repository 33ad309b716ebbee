import type { JsonSchema } from "../../core/action.ts";
import { clip, isRecord, type Json } from "../../core/json.ts";
import { guardSchema } from "../../core/schema-guard.ts";
import { dereference, findPart, type OpenApiObject } from "./read-document.ts";

/** What models are shown of one operation. */
const SCHEMA_BYTES = 32 * 1024;
/** The levels that are tried until the schema is small enough. */
const DEPTHS = [24, 12, 9, 7, 5, 4, 3, 2, 1];

export interface SchemaSource {
  readonly properties: readonly {
    readonly argument: string;
    readonly schema: unknown;
    readonly description?: string;
  }[];
  readonly required: readonly string[];
  readonly takesOthers: boolean;
  /** Whether binary strings are files of a form. */
  readonly isForm: boolean;
}

export interface ConvertedSchema {
  readonly schema: JsonSchema;
  /** The parts that were replaced by one that accepts anything. */
  readonly trimmed: number;
}

/** One schema without references out of it. Throws `unsafe_schema` if no trimmed form is small enough. */
export function convertArguments(document: OpenApiObject, source: SchemaSource): ConvertedSchema {
  let problem: unknown;
  for (const depth of DEPTHS) {
    for (const keepsPatterns of [true, false]) {
      const made = new SchemaConverter(document, depth, keepsPatterns, source.isForm).convert(source);
      if (JSON.stringify(made.schema).length > SCHEMA_BYTES && depth > 1) break;
      try {
        guardSchema(made.schema, "arguments");
        return made;
      } catch (thrown) {
        problem = thrown;
      }
    }
  }
  throw problem;
}

const COPIED = [
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

const FILE_SCHEMA = {
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

class SchemaConverter {
  readonly #document: OpenApiObject;
  readonly #depth: number;
  readonly #keepsPatterns: boolean;
  readonly #isForm: boolean;
  readonly #names = new Map<string, string>();
  /** References in the order in which they are met, so that near parts are kept. */
  readonly #open: { readonly reference: string; readonly name: string; readonly level: number }[] = [];
  #trimmed = 0;

  constructor(document: OpenApiObject, depth: number, keepsPatterns: boolean, isForm: boolean) {
    this.#document = document;
    this.#depth = depth;
    this.#keepsPatterns = keepsPatterns;
    this.#isForm = isForm;
  }

  convert({ properties, required, takesOthers }: SchemaSource): ConvertedSchema {
    const converted = properties.map(({ argument, schema, description }) => {
      const made = this.#isForm && this.#isFile(schema) ? { ...FILE_SCHEMA } : this.#part(schema, 1);
      const text = describe(description, isRecord(schema) ? schema : {}) ?? made.description;
      return [argument, text === undefined ? made : { ...made, description: text }] as const;
    });
    const definitions: [string, Json][] = [];
    for (let next = this.#open.shift(); next !== undefined; next = this.#open.shift())
      definitions.push([next.name, this.#part(findPart(this.#document, next.reference), next.level)]);
    const schema = {
      type: "object",
      properties: Object.fromEntries(converted),
      ...(required.length > 0 ? { required } : {}),
      ...(takesOthers ? {} : { additionalProperties: false }),
      ...(definitions.length > 0 ? { $defs: Object.fromEntries(definitions) } : {}),
    };
    return { schema: schema as JsonSchema, trimmed: this.#trimmed };
  }

  #isFile(raw: unknown): boolean {
    const schema = dereference(this.#document, raw) ?? {};
    return (
      schema.type === "file" ||
      (schema.type === "string" && (schema.format === "binary" || "contentMediaType" in schema))
    );
  }

  #part(raw: unknown, level: number): Record<string, Json> {
    if (!isRecord(raw)) return raw === false ? { not: {} } : {};
    if (typeof raw.$ref === "string") return this.#reference(raw.$ref, raw, level);
    const text = describe(undefined, raw);
    const described: Record<string, Json> = text === undefined ? {} : { description: text };
    if (level > this.#depth) {
      this.#trimmed++;
      const type = toType(raw);
      return { ...described, ...(type === undefined ? {} : { type }) };
    }
    const next = level + 1;
    const made: Record<string, Json> = { ...described };
    const type = toType(raw);
    if (type !== undefined) made.type = type;
    for (const keyword of COPIED) if (isPlain(raw[keyword])) made[keyword] = raw[keyword];
    fixLimits(made, raw);
    if (this.#keepsPatterns && typeof raw.pattern === "string") made.pattern = raw.pattern;
    if (isRecord(raw.properties)) {
      const kept = Object.entries(raw.properties).filter(
        ([name, part]) => name !== "__proto__" && !this.#isReadOnly(part),
      );
      made.properties = Object.fromEntries(
        kept.map(([name, part]) => [
          name,
          this.#isForm && this.#isFile(part) ? { ...FILE_SCHEMA } : this.#part(part, next),
        ]),
      );
    }
    const required = listRequired(this.#document, raw);
    if (required.length > 0) made.required = required;
    const others = raw.additionalProperties;
    if (typeof others === "boolean") made.additionalProperties = others;
    else if (isRecord(others)) made.additionalProperties = this.#part(others, next);
    if (isRecord(raw.items))
      made.items = this.#isForm && this.#isFile(raw.items) ? { ...FILE_SCHEMA } : this.#part(raw.items, next);
    for (const keyword of ["allOf", "prefixItems"])
      if (Array.isArray(raw[keyword])) made[keyword] = raw[keyword].map((part) => this.#part(part, next));
    // Variants overlap once they are trimmed, so `oneOf` would refuse what the server takes.
    const variants = [raw.anyOf, raw.oneOf].filter((each) => Array.isArray(each) && each.length > 0) as unknown[][];
    const [first, second] = variants.map((each) => each.map((part) => this.#part(part, next)));
    if (first !== undefined) made.anyOf = first;
    if (second !== undefined) made.allOf = [...((made.allOf as Json[]) ?? []), { anyOf: second }];
    return raw.nullable === true ? allowNull(made) : made;
  }

  #isReadOnly(part: unknown): boolean {
    return dereference(this.#document, part)?.readOnly === true;
  }

  #reference(reference: string, raw: OpenApiObject, level: number): Record<string, Json> {
    const target = dereference(this.#document, raw);
    if (target === undefined) return {};
    const text = describe(undefined, raw);
    const described: Record<string, Json> = text === undefined ? {} : { description: text };
    const isSmall = ["string", "integer", "number", "boolean"].includes(String(target.type)) && !("anyOf" in target);
    if (isSmall) return { ...this.#part(target, level), ...described };
    let name = this.#names.get(reference);
    if (name === undefined) {
      if (level >= this.#depth) {
        this.#trimmed++;
        const type = toType(target);
        return { ...(type === undefined ? {} : { type }), ...described };
      }
      name = this.#newName(reference);
      this.#names.set(reference, name);
      this.#open.push({ reference, name, level: level + 1 });
    }
    const made: Record<string, Json> = { $ref: `#/$defs/${name}`, ...described };
    return raw.nullable === true ? allowNull(made) : made;
  }

  #newName(reference: string): string {
    const plain = (reference.split("/").at(-1) ?? "").replace(/[^A-Za-z0-9_.-]/g, "_").slice(0, 60) || "part";
    const taken = new Set(this.#names.values());
    let name = plain === "__proto__" ? "proto" : plain;
    for (let count = 2; taken.has(name); count++) name = `${plain}_${count}`;
    return name;
  }
}

/** Required fields, without those that only responses have. */
export function listRequired(document: OpenApiObject, schema: OpenApiObject): string[] {
  if (!Array.isArray(schema.required)) return [];
  const { properties } = schema;
  const names = schema.required.filter((name): name is string => typeof name === "string" && name !== "__proto__");
  return [...new Set(names)].filter((name) => {
    const part = isRecord(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined;
    return dereference(document, part)?.readOnly !== true;
  });
}

function toType(raw: OpenApiObject): Json | undefined {
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

function allowNull(made: Record<string, Json>): Record<string, Json> {
  const { description, ...rest } = made;
  if (Object.keys(rest).length === 0) return made;
  return { ...(description === undefined ? {} : { description }), anyOf: [rest, { type: "null" }] };
}

/** OpenAPI 3.0 has exclusive limits as flags. */
function fixLimits(made: Record<string, Json>, raw: OpenApiObject): void {
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
function describe(own: string | undefined, raw: OpenApiObject): string | undefined {
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

const isPlain = (value: unknown): value is Json => value !== undefined && typeof value !== "function";
