import { hash } from "node:crypto";
import type { Action } from "./action.ts";
import { canonicalJson } from "./json.ts";

const known = new WeakMap<Action, string>();

/** A fingerprint of everything a caller relies on: the same text means the same promise. */
export function definitionOf(action: Action): string {
  let definition = known.get(action);
  if (definition === undefined) {
    const { name, description, inputSchema, outputSchema, effect, tags, scope, routing, canonical } = action;
    const promise = { name, description, inputSchema, outputSchema, effect, tags, scope, routing, canonical };
    definition = fingerprint(promise).slice(0, 16);
    known.set(action, definition);
  }
  return definition;
}

/** SHA-256 of a value's canonical JSON, in hex. */
export function fingerprint(value: unknown): string {
  return hash("sha256", canonicalJson(value), "hex");
}
