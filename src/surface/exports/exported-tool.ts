import type { JsonSchema } from "../../core/action.ts";
import type { Surface, SurfaceTool } from "../surface.ts";

/** A tool on its way out. Its schema is a copy of its own: a foreign library may change what it gets. */
export interface ExportedTool {
  readonly name: string;
  readonly description: string;
  readonly schema: ExportedSchema;
}

/** JSON Schema of an object, as the providers' own types want it. */
export interface ExportedSchema {
  type: "object";
  properties: Record<string, unknown>;
  required?: string[];
  [keyword: string]: unknown;
}

/** The tools of a surface, in its order. Two calls give the same bytes while the surface stays the same. */
export function exportTools({ tools }: Pick<Surface, "tools">): ExportedTool[] {
  return tools.map(toExportedTool);
}

/** OpenAI and Anthropic answer a whole request with 400 when one tool has one of these at the root of its schema. */
const REFUSED_AT_ROOT = ["allOf", "anyOf", "enum", "not", "oneOf"];

/**
 * What a provider would refuse is moved from the schema to the description, so that one odd tool does not take the
 * others with it. Arguments are still checked against the whole schema when the call comes back.
 */
function toExportedTool({ name, description, inputSchema }: SurfaceTool): ExportedTool {
  const { schema, moved } = splitSchema(inputSchema);
  return {
    name,
    description: moved === undefined ? description : `${description}\nThe arguments must also fit ${moved}`,
    schema: structuredClone(schema) as unknown as ExportedSchema,
  };
}

function splitSchema(schema: JsonSchema): { readonly schema: JsonSchema; readonly moved?: string } {
  // OpenAI refuses an object without properties, even one that has none.
  const whole = schema.properties === undefined ? { ...schema, properties: {} } : schema;
  const entries = Object.entries(whole);
  const refused = entries.filter(([keyword]) => REFUSED_AT_ROOT.includes(keyword));
  if (refused.length === 0) return { schema: whole };
  return {
    schema: Object.fromEntries(entries.filter(([keyword]) => !REFUSED_AT_ROOT.includes(keyword))),
    moved: JSON.stringify(Object.fromEntries(refused)),
  };
}
