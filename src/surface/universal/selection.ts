import type { Shelf } from "../../activation/shelves.ts";
import type { View } from "../../catalog/view.ts";
import type { Action } from "../../core/action.ts";
import { isRecord } from "../../core/json.ts";
import type { Answer, SurfaceTool } from "../surface.ts";

/** Names in an enum: about a thousand tokens. Beyond them, those that were issued last. */
export const ENUM_LIMIT = 128;
/** Actions as tools of their own. Beyond them, those that were issued last. */
export const PROMOTED_LIMIT = 32;

/** The names that an answer gives to a model: a page of actions, or the description of one. */
export function namesIn({ data }: Answer): readonly string[] {
  if (!isRecord(data)) return [];
  const items: readonly unknown[] = Array.isArray(data.items) ? data.items : [data];
  return items.flatMap((item) =>
    isRecord(item) && typeof item.qualified_name === "string" ? [item.qualified_name] : [],
  );
}

/** What was issued last and can still be seen, in the order in which it was first issued. */
export function issuedActions(view: View, issued: Shelf, limit: number): readonly Action[] {
  return issued.latest(limit).flatMap((name) => view.get(name) ?? []);
}

/** The tool with a choice of names where it takes one. It guides the model; other names are answered as ever. */
export function withChoice(tool: SurfaceTool, parameter: string, names: readonly string[]): SurfaceTool {
  const { properties } = tool.inputSchema;
  if (names.length === 0 || !isRecord(properties)) return tool;
  const choice = { ...(properties[parameter] as object), enum: names };
  return { ...tool, inputSchema: { ...tool.inputSchema, properties: { ...properties, [parameter]: choice } } };
}
