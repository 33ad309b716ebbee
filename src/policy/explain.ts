import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { omitUndefined } from "../core/json.ts";
import { findNearest } from "../core/nearest.ts";
import { decide, listObjections } from "./decide.ts";
import type { Objection, ObjectionFacts, PolicyLayer } from "./objection.ts";
import type { Policy } from "./policy.ts";

export interface Explanation {
  readonly action: string;
  readonly actor: string;
  readonly exists: boolean;
  readonly visible: boolean;
  /** Without arguments. */
  readonly decision: "allow" | "ask" | "deny" | "unknown";
  readonly because?: ObjectionFacts & { readonly layer: PolicyLayer; readonly rule: string };
  readonly layers: readonly (ObjectionFacts & {
    readonly layer: PolicyLayer;
    readonly says: "nothing" | "hide" | "deny" | "ask";
    readonly rule?: string;
    /** The operation that the action runs, if the objection is to that. */
    readonly about?: string;
  })[];
  /** For a specialist: why only one actor has it. */
  readonly justification?: string;
  /** Why its calls are not routed. */
  readonly bypassReason?: string;
  /** The source that would have an unknown action, if it was never asked for its actions. */
  readonly pending?: string;
  /** The existing name nearest to an unknown one. */
  readonly nearest?: string;
}

export function explain(
  policy: Policy,
  known: {
    readonly actions: readonly Action[];
    readonly pending: readonly { readonly name: string; readonly prefix: string }[];
    get(name: string): Action | undefined;
  },
  name: string,
  caller: Caller,
): Explanation {
  const { actor } = caller;
  const action = known.get(name) ?? known.get(`tool__${name}`);
  if (action === undefined) {
    const names = known.actions.map((each) => each.name);
    const unknown = { action: name, actor, exists: false, visible: false, decision: "unknown", layers: [] } as const;
    const pending = known.pending.find(({ prefix }) => name.startsWith(prefix))?.name;
    return omitUndefined({ ...unknown, pending, nearest: findNearest(name, names, 5) });
  }
  const target = action.canonical && known.get(action.canonical.target);
  const question = { action, target, caller };
  const decision = decide(policy, question);
  const objection = decision.kind === "allow" ? undefined : decision.objection;
  return {
    action: action.name,
    actor,
    exists: true,
    visible: decision.kind === "allow" || !decision.hidden,
    decision: decision.kind,
    ...(objection && { because: { layer: objection.layer, rule: objection.rule, ...pickFacts(objection) } }),
    layers: listObjections(policy, question).map(({ layer, objection }) => ({
      layer,
      says: objection?.effect ?? "nothing",
      ...(objection && omitUndefined({ rule: objection.rule, about: objection.about, ...pickFacts(objection) })),
    })),
    ...omitUndefined({ justification: action.justification, bypassReason: action.bypassReason }),
  };
}

const pickFacts = ({ list, entry, setting, world, needsAcceptance }: Objection): ObjectionFacts =>
  omitUndefined({ list, entry, setting, world, needsAcceptance });
