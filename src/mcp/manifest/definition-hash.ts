import { hash } from "node:crypto";
import { canonicalJson, getOwn, type JsonObject } from "../../core/json.ts";
import type { OfferedTool } from "./offer.ts";

/** What a model is told of a tool, and what decides how a call is treated. Icons and `_meta` are neither. */
export const PINNED_FIELDS = ["name", "title", "description", "inputSchema", "outputSchema", "annotations"] as const;

/** The part of a definition that a person accepted. */
export function pinnedPart(tool: OfferedTool): JsonObject {
  return Object.fromEntries(
    PINNED_FIELDS.flatMap((field) => {
      const value = getOwn(tool, field);
      return value === undefined ? [] : [[field, value]];
    }),
  );
}

/**
 * What a definition is pinned by. The order of keys does not count; every character of every text does, seen or not, so
 * nothing is normalised.
 */
export function definitionHash(tool: OfferedTool): string {
  const pinned = Object.fromEntries(PINNED_FIELDS.map((field) => [field, getOwn(tool, field)]));
  return hash("sha256", canonicalJson(pinned), "hex");
}
