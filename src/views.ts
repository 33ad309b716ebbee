import { requireActor } from "./callers.ts";
import type { Catalog } from "./catalog/catalog.ts";
import { createView, type View } from "./catalog/view.ts";
import type { Caller } from "./core/caller.ts";
import { QmError } from "./core/errors.ts";
import { SYSTEM_SESSION } from "./core/events.ts";
import { canonicalJson } from "./core/json.ts";
import { standingOf } from "./policy/decide.ts";
import type { Policy } from "./policy/policy.ts";

const KEPT = 128;

export interface Views {
  of(policy: Policy, caller: Caller): View;
}

/**
 * Views by caller, kept while nothing they depend on has changed: a view looks at every action once, and a model asks
 * page after page. Where no rule speaks of `ctx`, all sessions of an actor share one. With a visibility policy of the
 * host's nothing is kept, because a kill switch must act at once.
 */
export function createViews(catalog: Pick<Catalog, "snapshot">): Views {
  const kept = new Map<string, View>();
  let basis: unknown[] = [];

  return {
    of(policy, caller) {
      const snapshot = catalog.snapshot();
      const make = (): View => createView(snapshot, (action, target) => standingOf(policy, { action, target, caller }));
      if (policy.visibility !== undefined) return make();
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
}

/** The view of a caller who may have one. Throws `unknown_actor`, and `invalid_arguments` for the session that is nobody's. */
export function requiredView(policy: Policy, caller: Caller, views: Views): View {
  requireActor(policy, caller.actor);
  if (caller.session === SYSTEM_SESSION) {
    throw new QmError("invalid_arguments", `the session ${SYSTEM_SESSION} is kept for what no caller asked for`, {
      hint: "Use another session.",
    });
  }
  return views.of(policy, caller);
}
