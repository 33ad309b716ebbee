import { requireActor } from "./callers.ts";
import type { Catalog } from "./catalog/catalog.ts";
import { withLive } from "./catalog/live.ts";
import { createView, targetOf, type View } from "./catalog/view.ts";
import type { Action } from "./core/action.ts";
import type { Caller } from "./core/caller.ts";
import { QmError } from "./core/errors.ts";
import { SYSTEM_SESSION } from "./core/events.ts";
import { canonicalJson } from "./core/json.ts";
import type { Access } from "./infospace/infospace.ts";
import { decide, standingOf } from "./policy/decide.ts";
import { type Explanation, explain } from "./policy/explain.ts";
import type { Policy } from "./policy/policy.ts";

const KEPT = 128;

export interface Views {
  /** With `live`, what only such callers have is in it as well, and it is made for this one caller. */
  of(policy: Policy, caller: Caller, live?: readonly Action[]): View;
  /** Why an action is or is not in a caller's view. */
  explain(policy: Policy, caller: Caller, name: string): Explanation;
  /** What the policy says of something that is this caller's or another's, before it is used by its handle. */
  access(policy: Policy, caller: Caller, resource: Action): Access;
}

/**
 * Views by caller, kept while nothing they depend on has changed: a view looks at every action once, and a model asks
 * page after page. Where no rule speaks of `ctx`, all sessions of an actor share one. With a visibility policy of the
 * host's nothing is kept, because a kill switch must act at once.
 */
export function createViews(catalog: Pick<Catalog, "snapshot">): Views {
  const kept = new Map<string, View>();
  let basis: unknown[] = [];

  const views: Views = {
    explain(policy, caller, name) {
      const explained = explain(policy, catalog.snapshot(), name, caller);
      if (!explained.visible || views.of(policy, caller).get(explained.action) !== undefined) return explained;
      const rule = "it serves other actions, and the caller sees none of them";
      return { ...explained, visible: false, decision: "deny", because: { layer: "visibility", rule } };
    },
    access(policy, caller, resource) {
      const view = withLive(catalog.snapshot(), [resource]);
      const action = view.get(resource.name);
      if (action === undefined) return "hidden";
      const decision = decide(policy, { action, target: targetOf(view, action), caller, args: {} });
      if (decision.kind === "allow") return "allowed";
      if (decision.hidden) return "hidden";
      return { refused: decision.objection.reason };
    },
    of(policy, caller, live = []) {
      const snapshot = live.length === 0 ? catalog.snapshot() : withLive(catalog.snapshot(), live);
      const make = (): View => createView(snapshot, (action, target) => standingOf(policy, { action, target, caller }));
      if (policy.visibility !== undefined || live.length > 0) return make();
      const current = [policy, snapshot, ...policy.gates.map((gate) => gate.shut())];
      if (current.length !== basis.length || current.some((part, index) => part !== basis[index])) {
        kept.clear();
        basis = current;
      }
      const key = policy.rules.some(({ condition }) => condition.mentions.has("ctx"))
        ? canonicalJson(caller)
        : caller.actor;
      const view = kept.get(key) ?? make();
      kept.delete(key);
      kept.set(key, view);
      if (kept.size > KEPT) kept.delete(kept.keys().next().value ?? "");
      return view;
    },
  };
  return views;
}

/** The view of a caller who may have one. Throws `unknown_actor`, and `invalid_arguments` for the session that is nobody's. */
export function requiredView(policy: Policy, caller: Caller, views: Views, live?: readonly Action[]): View {
  requireActor(policy, caller.actor);
  if (caller.session === SYSTEM_SESSION) {
    throw new QmError("invalid_arguments", `the session ${SYSTEM_SESSION} is kept for what no caller asked for`, {
      hint: "Use another session.",
    });
  }
  return views.of(policy, caller, live);
}
