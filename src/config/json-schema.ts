import { z } from "zod";
import type { JsonSchema } from "../core/action.ts";
import { getOwn, isRecord } from "../core/json.ts";
import type { KeyPath } from "./problems.ts";
import { configSchema } from "./schema.ts";

/** The configuration file as JSON Schema (2020-12), for editors: what may be written, before defaults. */
export function jsonSchemaOfConfig(): JsonSchema {
  return z.toJSONSchema(configSchema, { io: "input" }) as JsonSchema;
}

/** One key of the configuration, for the table in `docs/config.md`. */
export interface ConfigKey {
  /** `policy.rules[].effect`, `actors.<name>.tools`. */
  readonly path: string;
  readonly type: string;
  /** As JSON. Absent: there is none, the key must be given or may stay away. */
  readonly default?: string;
  readonly required: boolean;
  readonly meaning: string;
}

/** Every key, in the order of the schema, a mapping before what is in it. */
export function configKeys(): readonly ConfigKey[] {
  return keysBelow(jsonSchemaOfConfig(), "");
}

/** The keys that may stand in the mapping at `path`; none where any name may. */
export function keysAt(path: KeyPath): readonly string[] {
  let schema: unknown = jsonSchemaOfConfig();
  for (const segment of path) {
    const { properties, additionalProperties, items } = recordOf(schema);
    schema = typeof segment === "number" ? items : (getOwn(recordOf(properties), segment) ?? additionalProperties);
  }
  return Object.keys(recordOf(recordOf(schema).properties));
}

function keysBelow(schema: unknown, prefix: string): readonly ConfigKey[] {
  const { properties, additionalProperties, items, required } = recordOf(schema);
  const isRequired = (name: string) => Array.isArray(required) && required.includes(name);
  const named = Object.entries(recordOf(properties)).flatMap(([name, part]) =>
    keyAndBelow(part, prefix === "" ? name : `${prefix}.${name}`, isRequired(name)),
  );
  return [
    ...named,
    ...(isRecord(additionalProperties) ? keysBelow(additionalProperties, `${prefix}.<name>`) : []),
    ...(isRecord(items) ? keysBelow(items, `${prefix}[]`) : []),
  ];
}

function keyAndBelow(schema: unknown, path: string, required: boolean): readonly ConfigKey[] {
  const { default: preset, description } = recordOf(schema);
  const key: ConfigKey = {
    path,
    type: typeText(schema),
    ...(preset === undefined || isRecord(preset) ? {} : { default: JSON.stringify(preset) }),
    required,
    meaning: typeof description === "string" ? description : "",
  };
  return [key, ...keysBelow(schema, path)];
}

function typeText(schema: unknown): string {
  const { type, enum: values, items, additionalProperties, minimum, maximum, anyOf } = recordOf(schema);
  if (Array.isArray(anyOf)) return anyOf.map(typeText).join(", ");
  if (Array.isArray(values)) return values.join(", ");
  if (Array.isArray(type)) return type.map((each) => typeText({ type: each })).join(", ");
  switch (type) {
    case "array":
      return isRecord(recordOf(items).properties) ? "list of mappings" : `list of ${typeText(items)}`;
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

function recordOf(value: unknown): Record<string, unknown> {
  return isRecord(value) ? value : {};
}
