import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { findNearest } from "../core/nearest.ts";
import { decide, listObjections } from "./decide.ts";
import type { PolicyLayer } from "./objection.ts";
import type { Policy } from "./policy.ts";

/** Why an action is or is not there for a caller. */
export interface Explanation {
  readonly action: string;
  readonly actor: string;
  readonly exists: boolean;
  readonly visible: boolean;
  /** As far as it can be told without arguments. */
  readonly decision: "allow" | "ask" | "deny" | "unknown";
  /** The layer that removed it or stands in its way, and which rule of it. */
  readonly because?: { readonly layer: PolicyLayer; readonly rule: string };
  readonly layers: readonly {
    readonly layer: PolicyLayer;
    readonly says: "nothing" | "hide" | "deny" | "ask";
    readonly rule?: string;
    /** The operation it is about, where it is not the action itself but what that runs. */
    readonly about?: string;
  }[];
  /** For a name that does not exist: the nearest that does. */
  readonly nearest?: string;
}

interface KnownActions {
  readonly actions: readonly Action[];
  get(name: string): Action | undefined;
}

export function explain(policy: Policy, known: KnownActions, name: string, caller: Caller): Explanation {
  const action = known.get(name) ?? known.get(`tool__${name}`);
  if (action === undefined) {
    const near = findNearest(
      name,
      known.actions.map((each) => each.name),
      5,
    );
    return {
      action: name,
      actor: caller.actor,
      exists: false,
      visible: false,
      decision: "unknown",
      layers: [],
      ...(near === undefined ? {} : { nearest: near }),
    };
  }
  const target = action.canonical && known.get(action.canonical.target);
  const question = { action, target, caller };
  const decision = decide(policy, question);
  return {
    action: action.name,
    actor: caller.actor,
    exists: true,
    visible: decision.kind === "allow" || !decision.hidden,
    decision: decision.kind,
    ...(decision.kind === "allow"
      ? {}
      : { because: { layer: decision.objection.layer, rule: decision.objection.rule } }),
    layers: listObjections(policy, question).map(({ layer, objection }) =>
      objection === undefined
        ? { layer, says: "nothing" }
        : {
            layer,
            says: objection.effect,
            rule: objection.rule,
            ...(objection.about === undefined ? {} : { about: objection.about }),
          },
    ),
  };
}
