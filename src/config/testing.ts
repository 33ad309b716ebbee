import { z } from "zod";
import type { JsonSchema } from "../core/action.ts";
import { isRecord } from "../core/json.ts";
import { toFileKey } from "./file-keys.ts";
import { configSchema } from "./schema.ts";

/** The JSON Schema (2020-12) of the configuration file, for editors. */
export function toConfigJsonSchema(): JsonSchema {
  return toFileJsonSchema(configSchema);
}

/** One key of the configuration, for the table in `docs/config.md`. */
export interface ConfigKey {
  /** `policy.rules[].effect`, `actors.<name>.tools`. */
  readonly path: string;
  readonly type: string;
  /** As JSON. */
  readonly default?: string;
  readonly required: boolean;
  readonly meaning: string;
}

/** Every key in the order of the schema, each mapping before its own keys. */
export function listConfigKeys(): readonly ConfigKey[] {
  return collectKeys(toConfigJsonSchema(), "");
}

/** The JSON Schema of a schema, with the keys of the file. */
export function toFileJsonSchema(schema: z.ZodType): JsonSchema {
  return z.toJSONSchema(schema, {
    io: "input",
    override({ zodSchema, jsonSchema }) {
      if (!(zodSchema instanceof z.ZodObject)) return;
      const { properties = {}, required } = jsonSchema;
      const toKey = (option: string) => toFileKey(option, zodSchema.shape[option]);
      jsonSchema.properties = Object.fromEntries(
        Object.entries(properties).map(([option, part]) => [toKey(option), part]),
      );
      if (required !== undefined) jsonSchema.required = required.map(toKey);
    },
  }) as JsonSchema;
}

function collectKeys(schema: unknown, prefix: string): readonly ConfigKey[] {
  const { properties, additionalProperties, items, required } = asRecord(schema);
  const isRequired = (name: string) => Array.isArray(required) && required.includes(name);
  const named = Object.entries(asRecord(properties)).flatMap(([name, part]) =>
    collectKey(part, prefix === "" ? name : `${prefix}.${name}`, isRequired(name)),
  );
  return [
    ...named,
    ...(isRecord(additionalProperties) ? collectKeys(additionalProperties, `${prefix}.<name>`) : []),
    ...(isRecord(items) ? collectKeys(items, `${prefix}[]`) : []),
  ];
}

function collectKey(schema: unknown, path: string, required: boolean): readonly ConfigKey[] {
  const { default: preset, description } = asRecord(schema);
  const key: ConfigKey = {
    path,
    type: formatType(schema),
    ...(preset === undefined || isRecord(preset) ? {} : { default: JSON.stringify(preset) }),
    required,
    meaning: typeof description === "string" ? description : "",
  };
  return [key, ...collectKeys(schema, path)];
}

function formatType(schema: unknown): string {
  const { type, enum: values, items, additionalProperties, minimum, maximum, anyOf } = asRecord(schema);
  if (Array.isArray(anyOf)) return anyOf.map(formatType).join(", ");
  if (Array.isArray(values)) return values.join(", ");
  if (Array.isArray(type)) return type.map((each) => formatType({ type: each })).join(", ");
  switch (type) {
    case "array":
      return isRecord(asRecord(items).properties) ? "list of mappings" : `list of ${formatType(items)}`;
    case "object":
      return isRecord(additionalProperties) ? "mapping by name" : "mapping";
    case "integer":
      return maximum === Number.MAX_SAFE_INTEGER
        ? `whole number from ${minimum}`
        : `whole number, ${minimum} to ${maximum}`;
    case "string":
      return "text";
    case "boolean":
      return "true, false";
    default:
      return String(type);
  }
}

function asRecord(value: unknown): Record<string, unknown> {
  return isRecord(value) ? value : {};
}
