import type { StandardSchemaV1 } from "@standard-schema/spec";
import { z } from "zod";
import type { Handler, JsonSchema } from "./action.ts";
import { QmError } from "./errors.ts";
import { isRecord, type JsonObject } from "./json.ts";

/** JSON Schema, or a Standard Schema that can be converted to it (zod). */
export type InputSchema = JsonSchema | StandardSchemaV1;
export type SchemaOutput<Schema> = Schema extends StandardSchemaV1 ? StandardSchemaV1.InferOutput<Schema> : JsonObject;
export type SchemaInput<Schema> = Schema extends StandardSchemaV1 ? StandardSchemaV1.InferInput<Schema> : unknown;
export const isStandardSchema = (schema: unknown): schema is StandardSchemaV1 =>
  (typeof schema === "object" || typeof schema === "function") && schema !== null && "~standard" in schema;

/** The JSON Schema that models see and arguments are checked against. Throws `unsafe_schema`. */
export function toJsonSchema(schema: StandardSchemaV1 | Record<string, unknown>): JsonSchema {
  if (isZod3Schema(schema)) {
    const hint = 'Use zod 4 (zod 3.25 has it as "zod/v4"), or pass JSON Schema.';
    throw new QmError("unsafe_schema", "it is a zod 3 schema, which cannot be converted to JSON Schema", { hint });
  }
  if (!isStandardSchema(schema)) return schema as JsonSchema;
  const self: StandardSchemaV1["~standard"] & { jsonSchema?: { input(options: { target: string }): unknown } } =
    schema["~standard"];
  try {
    const made =
      self.jsonSchema?.input({ target: "draft-2020-12" }) ??
      (schema instanceof z.ZodType ? z.toJSONSchema(schema, { io: "input" }) : undefined);
    if (isRecord(made)) {
      const { $schema: _dialect, ...rest } = made;
      return rest as JsonSchema;
    }
  } catch (thrown) {
    const hint = "Leave out transforms, functions and custom types, or use JSON Schema.";
    throw new QmError("unsafe_schema", `the ${self.vendor} schema has no JSON Schema form`, { hint, cause: thrown });
  }
  const hint = "Use JSON Schema or a zod 4 schema.";
  throw new QmError("unsafe_schema", `the ${self.vendor} schema cannot be converted to JSON Schema`, { hint });
}

/** zod before 3.24 is not even a Standard Schema. Without this it would pass for JSON Schema. */
function isZod3Schema(schema: object): boolean {
  const definition = "_def" in schema && isRecord(schema._def) ? schema._def : {};
  return typeof definition.typeName === "string" && definition.typeName.startsWith("Zod");
}

/** Validates with a Standard Schema before the handler: it may refine and transform beyond JSON Schema. */
export function addSchemaCheck(schema: InputSchema, run: Handler): Handler {
  if (!isStandardSchema(schema)) return run;
  return async (args, context) => {
    const checked = await schema["~standard"].validate(args);
    if (checked.issues === undefined) return run(checked.value as JsonObject, context);
    throw new QmError("invalid_arguments", "the arguments do not fit", {
      details: {
        problems: checked.issues.slice(0, 8).map(({ message, path }) => ({
          path: (path ?? []).map((part) => `/${String(typeof part === "object" ? part.key : part)}`).join(""),
          message,
        })),
      },
    });
  };
}
