import type { Action } from "../core/action.ts";
import { NAMES_NOTED, type UnstampedEvent } from "../core/events.ts";
import type { Policy } from "./policy.ts";
import { toolPolicyObjection } from "./tool-policy.ts";

/** The event that names the actions which the static layer leaves out for everyone. Undefined: it leaves out none. */
export function filteredEvent({ tools, layers }: Policy, actions: readonly Action[]): UnstampedEvent | undefined {
  if (!layers.includes("tool-policy")) return undefined;
  const removed = actions.filter((action) => toolPolicyObjection(tools, action) !== undefined).map(({ name }) => name);
  if (removed.length === 0) return undefined;
  const left = actions.length - removed.length;
  const data = { removed: removed.slice(0, NAMES_NOTED), removedCount: removed.length, left };
  return { type: "policy.filtered", data };
}
