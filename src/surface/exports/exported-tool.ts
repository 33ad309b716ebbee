import type { Surface } from "../surface.ts";

/** JSON Schema of an object, as the providers' types want it. */
export interface ExportedSchema {
  type: "object";
  properties: Record<string, unknown>;
  required?: string[];
  [keyword: string]: unknown;
}

/** OpenAI and Anthropic refuse a whole request if one tool has one of these at the root of its schema. */
const REFUSED_AT_ROOT = ["allOf", "anyOf", "enum", "not", "oneOf"];

/**
 * The tools of a surface, in its order. Keywords that a provider refuses move from the schema to the description; the
 * surface still checks arguments against the whole schema. Schemas are copies, because libraries may change them.
 */
export function exportTools({ tools }: Pick<Surface, "tools">) {
  return tools.map(({ name, description, inputSchema }) => {
    // OpenAI refuses an object schema without `properties`.
    const whole = inputSchema.properties === undefined ? { ...inputSchema, properties: {} } : inputSchema;
    const isRefused = ([keyword]: [string, unknown]): boolean => REFUSED_AT_ROOT.includes(keyword);
    const refused = Object.entries(whole).filter(isRefused);
    const allowed = Object.fromEntries(Object.entries(whole).filter((entry) => !isRefused(entry)));
    const moved = `\nThe arguments must also fit ${JSON.stringify(Object.fromEntries(refused))}`;
    const schema = structuredClone(allowed) as unknown as ExportedSchema;
    return { name, description: refused.length === 0 ? description : description + moved, schema };
  });
}
