import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { getErrorMessage } from "../core/errors.ts";
import { EVENT_NAMES_LIMIT, type UnstampedEvent } from "../core/events.ts";
import { omitUndefined } from "../core/json.ts";
import { createPatternSet, type PatternSet } from "../core/name-patterns.ts";
import type { Objection } from "./objection.ts";
import type { Policy } from "./policy.ts";

/** Hides actions while the environment cannot run them: without a working sandbox, no exec. */
export interface Gate {
  readonly name: string;
  /** A name or glob. */
  readonly guards: string;
  /** Why the gate is shut, or undefined while it is open. Called for every decision, so it must be quick. */
  shut(): string | undefined;
  /** The configuration key that opens it, if there is one. */
  readonly setting?: string;
}

export interface CompiledGate extends Pick<Gate, "setting"> {
  readonly name: string;
  readonly guards: PatternSet;
  /** As `Gate.shut`, but a gate that throws is shut. */
  shut(): string | undefined;
}

export const compileGate = (gate: Gate): CompiledGate => ({
  name: gate.name,
  ...omitUndefined({ setting: gate.setting }),
  guards: createPatternSet([gate.guards]),
  shut() {
    try {
      return gate.shut();
    } catch (thrown) {
      return `it could not be checked: ${getErrorMessage(thrown)}`;
    }
  },
});

export function checkGates(gates: readonly CompiledGate[], action: Action): Objection | undefined {
  for (const gate of gates) {
    if (gate.guards.findMatch(action) === undefined) continue;
    const shut = gate.shut();
    if (shut === undefined) continue;
    const facts = omitUndefined({ setting: gate.setting });
    const reason = "It is not available here.";
    return { layer: "gates", effect: "hide", rule: `${gate.name}: ${shut}`, reason, ...facts };
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
  const found = findFilteringRule(policy, action);
  return found && { layer: "tool-policy", effect: "hide", reason: "It is not offered here.", ...found };
}

function findFilteringRule(
  { denied, allowed, requireTags }: CompiledToolPolicy,
  action: Action,
): Pick<Objection, "rule" | "list" | "entry"> | undefined {
  const pattern = denied.findMatch(action);
  if (pattern !== undefined) return { rule: `denied: ${pattern}`, list: "denied", entry: pattern };
  if (allowed !== undefined && allowed.findMatch(action) === undefined)
    return { rule: "not in allowed", list: "allowed" };
  const entry = requireTags.find((tag) => !action.tags.includes(tag));
  return entry === undefined ? undefined : { rule: `require_tags: ${entry}`, list: "requireTags", entry };
}

/**
 * Returns a function that creates the event which names the actions that the static layer removes for everyone. Undefined:
 * it removes none, or the same actions as the last time.
 */
export function createFilterWatcher() {
  let last = "";
  return ({ tools, layers }: Policy, actions: readonly Action[]): UnstampedEvent | undefined => {
    const isConfigured = layers.includes("tool-policy");
    const removed = isConfigured ? actions.filter((action) => checkToolPolicy(tools, action) !== undefined) : [];
    const names = removed.map(({ name }) => name);
    const answer = names.join("\n");
    if (answer === last) return undefined;
    last = answer;
    if (names.length === 0) return undefined;
    const left = actions.length - names.length;
    const data = { removed: names.slice(0, EVENT_NAMES_LIMIT), removedCount: names.length, left };
    return { type: "policy.filtered", data };
  };
}
