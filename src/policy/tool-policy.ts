import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { getErrorMessage } from "../core/errors.ts";
import { EVENT_NAMES_LIMIT, type UnstampedEvent } from "../core/events.ts";
import type { PatternSet } from "../core/name-patterns.ts";
import { matchesGlob } from "../core/name-patterns.ts";
import type { Objection } from "./objection.ts";
import type { Policy } from "./policy.ts";

/** Actions that exist only while the environment can carry them: no sandbox that works, no exec. */
export interface Gate {
  readonly name: string;
  /** A glob over action names. */
  readonly guards: string;
  /** Why it is shut right now, or undefined while it is open. Asked for every decision, so it must be quick. */
  shut(): string | undefined;
}

export function checkGates(gates: readonly Gate[], action: Action): Objection | undefined {
  for (const gate of gates) {
    if (!matchesGlob(gate.guards, action.name)) continue;
    const shut = gate.shut();
    if (shut !== undefined)
      return { layer: "gates", effect: "hide", rule: `${gate.name}: ${shut}`, reason: "It is not available here." };
  }
  return undefined;
}

/**
 * The host's own say, per request: feature flags, tenants, a kill switch. It can only narrow. Each action must be
 * judged by itself: the function is called with any subset, often one. What it throws hides everything it was asked of.
 */
export interface ToolVisibilityPolicy {
  visibleTools(actions: readonly Action[], caller: Caller): readonly Action[];
}

export function checkVisibility(
  policy: ToolVisibilityPolicy | undefined,
  action: Action,
  caller: Caller,
): Objection | undefined {
  if (policy === undefined) return undefined;
  try {
    if (policy.visibleTools([action], caller).some((visible) => visible.name === action.name)) return undefined;
    return hideInvisible("not among the visible tools");
  } catch (thrown) {
    return hideInvisible(`the visibility policy failed: ${getErrorMessage(thrown)}`);
  }
}

function hideInvisible(rule: string): Objection {
  return { layer: "visibility", effect: "hide", rule, reason: "It is not available to you." };
}

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

export function checkToolPolicy(policy: CompiledToolPolicy, action: Action): Objection | undefined {
  const denied = policy.denied.findMatch(action);
  if (denied !== undefined) return hideTool(`denied: ${denied}`);
  if (policy.allowed !== undefined && policy.allowed.findMatch(action) === undefined) return hideTool("not in allowed");
  const missing = policy.requireTags.find((tag) => !action.tags.includes(tag));
  return missing === undefined ? undefined : hideTool(`require_tags: ${missing}`);
}

function hideTool(rule: string): Objection {
  return { layer: "tool-policy", effect: "hide", rule, reason: "It is not offered here." };
}

/** The event that names the actions which the static layer leaves out for everyone. Undefined: it leaves out none. */
export function createFilteredEvent({ tools, layers }: Policy, actions: readonly Action[]): UnstampedEvent | undefined {
  if (!layers.includes("tool-policy")) return undefined;
  const removed = actions.filter((action) => checkToolPolicy(tools, action) !== undefined).map(({ name }) => name);
  if (removed.length === 0) return undefined;
  const left = actions.length - removed.length;
  const data = { removed: removed.slice(0, EVENT_NAMES_LIMIT), removedCount: removed.length, left };
  return { type: "policy.filtered", data };
}
