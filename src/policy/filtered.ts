import type { Action } from "../core/action.ts";
import type { Policy } from "./policy.ts";
import { toolPolicyObjection } from "./tool-policy.ts";

/** The actions that the static layer leaves out for everyone, whoever asks. */
export function filteredOut({ tools, layers }: Policy, actions: readonly Action[]): readonly Action[] {
  if (!layers.includes("tool-policy")) return [];
  return actions.filter((action) => toolPolicyObjection(tools, action) !== undefined);
}
