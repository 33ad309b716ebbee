import type { Effect } from "../../core/effect.ts";
import type { JsonObject } from "../../core/json.ts";
import type { SurfaceTool } from "../../surface/surface.ts";

/** A tool of a surface as MCP lists it. Where it is not known what calling it can do, the worst is said. */
export function toolDefinition({ name, description, inputSchema, effect }: SurfaceTool): JsonObject {
  const title = titleOf(name);
  return {
    name,
    title,
    description,
    inputSchema,
    annotations: { title, ...hintsOf(effect) },
    ...(effect === undefined ? {} : { _meta: { "quartermaster/effect": effect } }),
  };
}

/** What an effect promises, in MCP's words. Writing may overwrite, so all but looking counts as destructive. */
function hintsOf(effect: Effect | undefined): JsonObject {
  if (effect === "pure")
    return { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false };
  if (effect === "read")
    return { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true };
  return { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: effect !== "write" };
}

function titleOf(name: string): string {
  const words = name.replace(/[_-]+/g, " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
