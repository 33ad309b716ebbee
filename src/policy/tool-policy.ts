import type { Action } from "../core/action.ts";
import type { PatternSet } from "../core/patterns.ts";
import type { Objection } from "./verdict.ts";

/** The coarse, static layer: what this installation offers at all. */
export interface ToolPolicy {
  /** Names or globs. Absent: everything. */
  readonly allowed?: readonly string[];
  /** Names or globs. Wins over `allowed`. */
  readonly denied?: readonly string[];
  /** An action must carry all of them. */
  readonly requireTags?: readonly string[];
}

export interface CompiledToolPolicy {
  readonly allowed: PatternSet | undefined;
  readonly denied: PatternSet;
  readonly requireTags: readonly string[];
}

export function toolPolicyObjection(policy: CompiledToolPolicy, action: Action): Objection | undefined {
  const denied = policy.denied.matching(action);
  if (denied !== undefined) return hide(`denied: ${denied}`);
  if (policy.allowed !== undefined && policy.allowed.matching(action) === undefined) return hide("not in allowed");
  const missing = policy.requireTags.find((tag) => !action.tags.includes(tag));
  return missing === undefined ? undefined : hide(`require_tags: ${missing}`);
}

function hide(rule: string): Objection {
  return { layer: "tool-policy", effect: "hide", rule, reason: "It is not offered here." };
}
