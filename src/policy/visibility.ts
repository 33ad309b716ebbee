import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { messageOf } from "../core/errors.ts";
import type { Objection } from "./verdict.ts";

/**
 * The host's own say, per request: feature flags, tenants, a kill switch. It can only narrow. Each action must be
 * judged by itself: the function is called with any subset, often one. What it throws hides everything it was asked of.
 */
export interface ToolVisibilityPolicy {
  visibleTools(actions: readonly Action[], caller: Caller): readonly Action[];
}

export function visibilityObjection(
  policy: ToolVisibilityPolicy | undefined,
  action: Action,
  caller: Caller,
): Objection | undefined {
  if (policy === undefined) return undefined;
  try {
    if (policy.visibleTools([action], caller).some((visible) => visible.name === action.name)) return undefined;
    return hide("not among the visible tools");
  } catch (thrown) {
    return hide(`the visibility policy failed: ${messageOf(thrown)}`);
  }
}

function hide(rule: string): Objection {
  return { layer: "visibility", effect: "hide", rule, reason: "It is not available to you." };
}
