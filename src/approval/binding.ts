import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { definitionOf, fingerprint } from "../core/definition.ts";
import type { JsonObject } from "../core/json.ts";

/** What an agreement is about, and nothing else. */
export interface Bound {
  readonly action: Action;
  /** What the action runs, where that is another one: a change of it is a change of what was agreed to. */
  readonly target?: Action | undefined;
  readonly args: JsonObject;
  readonly caller: Caller;
  readonly policyVersion: string;
}

/** The same for the same call and for no other. */
export function bindingOf({ action, target, args, caller: { turn: _, ...caller }, policyVersion }: Bound): string {
  // Whoever repeats a call does so in the next turn.
  return fingerprint([
    action.name,
    definitionOf(action),
    target === undefined ? null : definitionOf(target),
    args,
    caller,
    policyVersion,
  ]);
}
