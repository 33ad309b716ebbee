import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { getErrorMessage } from "../core/errors.ts";
import { EVENT_NAMES_LIMIT, type UnstampedEvent } from "../core/events.ts";
import { matchesGlob, type PatternSet } from "../core/name-patterns.ts";
import type { Objection } from "./objection.ts";
import type { Policy } from "./policy.ts";

/** Hides actions while the environment cannot run them: without a working sandbox, no exec. */
export interface Gate {
  readonly name: string;
  /** A glob over action names. */
  readonly guards: string;
  /** Why the gate is shut, or undefined while it is open. Called for every decision, so it must be quick. */
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

/** The host's filter. It can only hide, and must judge each action by itself. If it throws, they are hidden. */
export type ToolVisibilityPolicy = { visibleTools(actions: readonly Action[], caller: Caller): readonly Action[] };

export function checkVisibility(
  policy: ToolVisibilityPolicy | undefined,
  action: Action,
  caller: Caller,
): Objection | undefined {
  if (policy === undefined) return undefined;
  let rule = "not among the visible tools";
  try {
    if (policy.visibleTools([action], caller).some((visible) => visible.name === action.name)) return undefined;
  } catch (thrown) {
    rule = `the visibility policy failed: ${getErrorMessage(thrown)}`;
  }
  return { layer: "visibility", effect: "hide", rule, reason: "It is not available to you." };
}

/** The static layer: what this installation offers at all. */
export interface ToolPolicy {
  /** Names or globs. Default: everything. */
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
  const rule = findFilteringRule(policy, action);
  if (rule === undefined) return undefined;
  return { layer: "tool-policy", effect: "hide", rule, reason: "It is not offered here." };
}

function findFilteringRule({ denied, allowed, requireTags }: CompiledToolPolicy, action: Action): string | undefined {
  const pattern = denied.findMatch(action);
  if (pattern !== undefined) return `denied: ${pattern}`;
  if (allowed !== undefined && allowed.findMatch(action) === undefined) return "not in allowed";
  const missing = requireTags.find((tag) => !action.tags.includes(tag));
  return missing === undefined ? undefined : `require_tags: ${missing}`;
}

/** The event that names the actions which the static layer removes for everyone, or undefined if it removes none. */
export function createFilteredEvent({ tools, layers }: Policy, actions: readonly Action[]): UnstampedEvent | undefined {
  if (!layers.includes("tool-policy")) return undefined;
  const removed = actions.filter((action) => checkToolPolicy(tools, action) !== undefined).map(({ name }) => name);
  if (removed.length === 0) return undefined;
  const left = actions.length - removed.length;
  const data = { removed: removed.slice(0, EVENT_NAMES_LIMIT), removedCount: removed.length, left };
  return { type: "policy.filtered", data };
}
