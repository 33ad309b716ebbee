import type { JsonSchema } from "../../core/action.ts";
import { isRecord, type Json } from "../../core/json.ts";
import { guardSchema } from "../../core/schema-guard.ts";
import { createDocumentError, dereference, findPart, type OpenApiObject } from "./read-document.ts";
import {
  allowNull,
  COPIED,
  describe,
  FILE_SCHEMA,
  fixLimits,
  isFileSchema,
  isPlain,
  listRequired,
  SIBLINGS,
  toType,
} from "./schema-keywords.ts";

/** What models are shown of one operation. */
const SCHEMA_BYTES = 32 * 1024;
/** The levels that are tried until the schema is small enough. */
const DEPTHS = [24, 12, 9, 7, 5, 4, 3, 2, 1, 0];
/** A long text takes as much work as many parts. */
const BYTES_PER_PART = 16;
/** No schema with more parts has fewer bytes than the limit. */
const PART_LIMIT = SCHEMA_BYTES / 8;

export interface SchemaSource {
  readonly properties: readonly {
    readonly argument: string;
    readonly schema: unknown;
    readonly description?: string;
    /** A field of the body, which is a file in a form if it is binary. */
    readonly isField?: boolean;
    /** The whole body. */
    readonly isBody?: boolean;
  }[];
  readonly required: readonly string[];
  readonly takesOthers: boolean;
  /** Whether binary fields of the body are files. */
  readonly isForm: boolean;
}

export interface ConvertedSchema {
  readonly schema: JsonSchema;
  /** The parts that were replaced by one that accepts anything. */
  readonly trimmed: number;
}

/** Schemas of a document that are converted for all operations together. */
export interface ConversionBudget {
  /** The parts that may still be converted. */
  left: number;
}

/**
 * One schema without references out of it. Throws `unsafe_schema` if no trimmed form is small enough, and
 * `invalid_arguments` if the budget is used up.
 */
export function convertArguments(
  document: OpenApiObject,
  source: SchemaSource,
  budget: ConversionBudget,
): ConvertedSchema {
  let problem: unknown;
  for (const depth of DEPTHS) {
    for (const keepsPatterns of [true, false]) {
      const made = new SchemaConverter(document, depth, keepsPatterns, budget).convert(source);
      if (made === undefined) break;
      const bytes = JSON.stringify(made.schema).length;
      budget.left -= bytes / BYTES_PER_PART;
      if (bytes > SCHEMA_BYTES && depth > 0) break;
      try {
        guardSchema(made.schema, "arguments");
        return made;
      } catch (thrown) {
        problem = thrown;
      }
    }
  }
  throw problem ?? createDocumentError("has an operation with too many arguments");
}

/**
 * Where a schema stands in a form. The fields of a form's body may be files, alone or in a list. Inside of a field,
 * binary is text.
 */
type FormPlace = "body" | "field" | "inner";

class SchemaConverter {
  readonly #document: OpenApiObject;
  readonly #depth: number;
  readonly #keepsPatterns: boolean;
  readonly #budget: ConversionBudget;
  /** The siblings of a reference count since OpenAPI 3.1. */
  readonly #keepsSiblings: boolean;
  readonly #names = new Map<string, string>();
  readonly #takenNames = new Set<string>();
  /** References in the order in which they are met, so that near parts are kept. */
  readonly #open: {
    readonly reference: string;
    readonly name: string;
    readonly level: number;
    readonly place: FormPlace;
  }[] = [];
  #trimmed = 0;
  #parts = 0;

  constructor(document: OpenApiObject, depth: number, keepsPatterns: boolean, budget: ConversionBudget) {
    this.#document = document;
    this.#depth = depth;
    this.#keepsPatterns = keepsPatterns;
    this.#budget = budget;
    this.#keepsSiblings = !String(document.openapi).startsWith("3.0");
  }

  /** Undefined: the schema has too many parts. */
  convert({ properties, required, takesOthers, isForm }: SchemaSource): ConvertedSchema | undefined {
    const converted: [string, Json][] = [];
    for (const { argument, schema, description, isField, isBody } of properties) {
      const place = isForm && isField ? "field" : isForm && isBody ? "body" : "inner";
      const made = this.#part(schema, 1, place);
      const text = describe(description, isRecord(schema) ? schema : {}) ?? made.description;
      converted.push([argument, text === undefined ? made : { ...made, description: text }]);
      if (this.#parts > PART_LIMIT && this.#depth > 0) return undefined;
    }
    const definitions: [string, Json][] = [];
    for (let next = this.#open.shift(); next !== undefined; next = this.#open.shift()) {
      definitions.push([next.name, this.#part(findPart(this.#document, next.reference), next.level, next.place)]);
      if (this.#parts > PART_LIMIT) return undefined;
    }
    const schema = {
      type: "object",
      properties: Object.fromEntries(converted),
      ...(required.length > 0 ? { required } : {}),
      ...(takesOthers ? {} : { additionalProperties: false }),
      ...(definitions.length > 0 ? { $defs: Object.fromEntries(definitions) } : {}),
    };
    return { schema: schema as JsonSchema, trimmed: this.#trimmed };
  }

  #part(raw: unknown, level: number, place: FormPlace): Record<string, Json> {
    if (!isRecord(raw)) return raw === false ? { not: {} } : {};
    if (--this.#budget.left < 0) throw createDocumentError("has schemas that take too much work to convert");
    // What lies beyond the limit is thrown away with the rest.
    if (++this.#parts > PART_LIMIT && this.#depth > 0) return {};
    if (place === "field" && isFileSchema(this.#document, raw)) return this.#file(raw);
    if (typeof raw.$ref === "string") return this.#reference(raw.$ref, raw, level, place);
    const text = describe(undefined, raw);
    const described: Record<string, Json> = text === undefined ? {} : { description: text };
    if (level > this.#depth) {
      this.#trimmed++;
      const type = raw.nullable === true ? undefined : toType(raw);
      return { ...described, ...(type === undefined ? {} : { type }) };
    }
    const next = level + 1;
    const made: Record<string, Json> = { ...described };
    const type = toType(raw);
    if (type !== undefined) made.type = type;
    for (const keyword of COPIED) if (isPlain(raw[keyword])) made[keyword] = raw[keyword];
    // It would refuse everything.
    if (Array.isArray(raw.enum) && raw.enum.length === 0) delete made.enum;
    fixLimits(made, raw);
    // Documents copy patterns with the slashes of a program, which match nothing.
    const isLiteral = /^\/\^|\$\/[a-z]*$/.test(String(raw.pattern));
    if (this.#keepsPatterns && typeof raw.pattern === "string" && !isLiteral) made.pattern = raw.pattern;
    if (isRecord(raw.properties)) {
      const kept = Object.entries(raw.properties).filter(
        ([name, part]) => name !== "__proto__" && !this.#isReadOnly(part),
      );
      const inside = place === "body" ? "field" : "inner";
      made.properties = Object.fromEntries(kept.map(([name, part]) => [name, this.#part(part, next, inside)]));
    }
    const required = listRequired(this.#document, raw);
    if (required.length > 0) made.required = required;
    const others = raw.additionalProperties;
    if (typeof others === "boolean") made.additionalProperties = others;
    else if (isRecord(others)) made.additionalProperties = this.#part(others, next, "inner");
    if (isRecord(raw.items)) made.items = this.#part(raw.items, next, place === "field" ? "field" : "inner");
    for (const keyword of ["allOf", "prefixItems"])
      if (Array.isArray(raw[keyword]) && raw[keyword].length > 0)
        made[keyword] = raw[keyword].map((part) => this.#part(part, next, keyword === "allOf" ? place : "inner"));
    // Variants overlap once they are trimmed, so `oneOf` would refuse what the server takes.
    const variants = [raw.anyOf, raw.oneOf].filter((each) => Array.isArray(each) && each.length > 0) as unknown[][];
    const [first, second] = variants.map((each) => each.map((part) => this.#part(part, next, place)));
    if (first !== undefined) made.anyOf = first;
    if (second !== undefined) made.allOf = [...((made.allOf as Json[]) ?? []), { anyOf: second }];
    return raw.nullable === true ? allowNull(made) : made;
  }

  #file(raw: OpenApiObject): Record<string, Json> {
    const text = describe(undefined, raw) ?? describe(undefined, dereference(this.#document, raw) ?? {});
    return { ...FILE_SCHEMA, ...(text === undefined ? {} : { description: `${text} ${FILE_SCHEMA.description}` }) };
  }

  #isReadOnly(part: unknown): boolean {
    return dereference(this.#document, part)?.readOnly === true || (isRecord(part) && part.readOnly === true);
  }

  #reference(reference: string, raw: OpenApiObject, level: number, place: FormPlace): Record<string, Json> {
    const target = dereference(this.#document, raw);
    if (target === undefined) {
      this.#trimmed++;
      return {};
    }
    const text = describe(undefined, raw);
    const described: Record<string, Json> = text === undefined ? {} : { description: text };
    const siblings = this.#keepsSiblings ? Object.keys(raw).filter((key) => SIBLINGS.has(key)) : [];
    if (siblings.length > 0) {
      const own = this.#part(Object.fromEntries(siblings.map((key) => [key, raw[key]])), level, place);
      const rest = this.#reference(reference, { $ref: reference }, level, place);
      return { ...own, ...described, allOf: [...((own.allOf as Json[]) ?? []), rest] };
    }
    const isSmall = ["string", "integer", "number", "boolean"].includes(String(target.type)) && !("anyOf" in target);
    if (isSmall) return { ...this.#part(target, level, place), ...described };
    const key = `${place} ${reference}`;
    let name = this.#names.get(key);
    if (name === undefined) {
      if (level >= this.#depth) {
        this.#trimmed++;
        const type = target.nullable === true ? undefined : toType(target);
        return { ...(type === undefined ? {} : { type }), ...described };
      }
      name = this.#newName(reference);
      this.#names.set(key, name);
      this.#open.push({ reference, name, level: level + 1, place });
    }
    const made: Record<string, Json> = { $ref: `#/$defs/${name}`, ...described };
    return raw.nullable === true ? allowNull(made) : made;
  }

  #newName(reference: string): string {
    const plain = (reference.split("/").at(-1) ?? "").replace(/[^A-Za-z0-9_.-]/g, "_").slice(0, 60) || "part";
    let name = plain === "__proto__" ? "proto" : plain;
    for (let count = 2; this.#takenNames.has(name); count++) name = `${plain}_${count}`;
    this.#takenNames.add(name);
    return name;
  }
}
