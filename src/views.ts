import { requireActor } from "./callers.ts";
import type { Catalog } from "./catalog/catalog.ts";
import { withLive } from "./catalog/live.ts";
import { createView, targetOf, type View } from "./catalog/view.ts";
import type { Action, MadeFrom } from "./core/action.ts";
import type { Caller } from "./core/caller.ts";
import { QmError } from "./core/errors.ts";
import { SYSTEM_SESSION } from "./core/events.ts";
import { canonicalJson } from "./core/json.ts";
import { LruMap } from "./core/lru-map.ts";
import type { Access } from "./infospace/infospace.ts";
import { isOwnedBy } from "./policy/actors.ts";
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
  /** Whether the caller may use every action that something was made from. Each is decided on once, however much it made. */
  mayUseAll(policy: Policy, caller: Caller, madeFrom: MadeFrom): boolean;
  /** Another value whenever `access` may answer differently. */
  rights(policy: Policy): unknown;
}

/**
 * Views by caller, kept while nothing they depend on has changed: a view looks at every action once, and a model asks
 * page after page. Where no rule speaks of `ctx`, all sessions of an actor share one. With a visibility policy of the
 * host's nothing is kept, because a kill switch must act at once.
 */
export function createViews(catalog: Pick<Catalog, "snapshot">): Views {
  const kept = new LruMap<string, View>(KEPT);
  let basis: unknown[] = [];

  /** What was decided of actions, with the view it was decided in. */
  const decided = new WeakMap<View, Map<string, boolean>>();
  /** A host's own policy may answer differently each time: its answers are kept until something is waited for. */
  let asked: { readonly policy: Policy; readonly caller: Caller; readonly answers: Map<string, boolean> } | undefined;

  function answersFor(policy: Policy, caller: Caller): Map<string, boolean> {
    if (policy.visibility === undefined) {
      const view = of(policy, caller);
      const answers = decided.get(view) ?? new Map<string, boolean>();
      decided.set(view, answers);
      return answers;
    }
    if (asked?.policy === policy && asked.caller === caller) return asked.answers;
    asked = { policy, caller, answers: new Map() };
    queueMicrotask(() => {
      asked = undefined;
    });
    return asked.answers;
  }

  function mayUseAll(policy: Policy, caller: Caller, { actions, maker }: MadeFrom): boolean {
    const answers = answersFor(policy, caller);
    const snapshot = catalog.snapshot();
    return actions.every((name) => {
      const action = snapshot.get(name);
      if (action === undefined) return isOwnedBy(maker, caller);
      const known = answers.get(action.name);
      if (known !== undefined) return known;
      const answer = decide(policy, { action, target: targetOf(snapshot, action), caller }).kind !== "deny";
      answers.set(action.name, answer);
      return answer;
    });
  }

  const isReached = (policy: Policy, caller: Caller, { madeFrom }: Action): boolean =>
    madeFrom === undefined || mayUseAll(policy, caller, madeFrom);

  /** What views depend on: the same value while nothing of it has changed. Forgets the views where something has. */
  function basisOf(policy: Policy): unknown {
    const current = [policy, catalog.snapshot(), ...policy.gates.map((gate) => gate.shut())];
    if (current.length !== basis.length || current.some((part, index) => part !== basis[index])) {
      kept.clear();
      basis = current;
    }
    return basis;
  }

  return {
    of,
    explain(policy, caller, name) {
      const explained = explain(policy, catalog.snapshot(), name, caller);
      if (!explained.visible || of(policy, caller).get(explained.action) !== undefined) return explained;
      const rule = "it serves other actions, and the caller sees none of them";
      return { ...explained, visible: false, decision: "deny", because: { layer: "visibility", rule } };
    },
    mayUseAll,
    rights: (policy) => (policy.visibility === undefined ? basisOf(policy) : {}),
    access(policy, caller, resource) {
      if (!isReached(policy, caller, resource)) return "hidden";
      const view = withLive(catalog.snapshot(), [resource]);
      const action = view.get(resource.name);
      if (action === undefined) return "hidden";
      const decision = decide(policy, { action, target: targetOf(view, action), caller, args: {} });
      if (decision.kind === "allow") return "allowed";
      if (decision.hidden) return "hidden";
      return { refused: decision.objection.reason };
    },
  };

  function of(policy: Policy, caller: Caller, live: readonly Action[] = []): View {
    const reached = live.filter((resource) => isReached(policy, caller, resource));
    const snapshot = reached.length === 0 ? catalog.snapshot() : withLive(catalog.snapshot(), reached);
    const make = (): View => createView(snapshot, (action, target) => standingOf(policy, { action, target, caller }));
    if (policy.visibility !== undefined || live.length > 0) return make();
    basisOf(policy);
    const key = policy.rules.some(({ condition }) => condition.mentions.has("ctx"))
      ? canonicalJson(caller)
      : caller.actor;
    const view = kept.get(key) ?? make();
    kept.set(key, view);
    return view;
  }
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
