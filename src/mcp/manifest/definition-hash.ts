import { hash } from "node:crypto";
import { canonicalJson, getOwn } from "../../core/json.ts";
import type { OfferedTool } from "./offer.ts";

/** What a model is told of a tool, and what decides how a call is treated. Icons and `_meta` are neither. */
export const PINNED_FIELDS = ["name", "title", "description", "inputSchema", "outputSchema", "annotations"] as const;

/**
 * What a definition is pinned by. The order of keys does not count; every character of every text does, seen or not, so
 * nothing is normalised.
 */
export function definitionHash(tool: OfferedTool): string {
  const pinned = Object.fromEntries(PINNED_FIELDS.map((field) => [field, getOwn(tool, field)]));
  return hash("sha256", canonicalJson(pinned), "hex");
}
