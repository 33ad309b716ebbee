import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { JsonObject } from "../core/json.ts";
import { actorObjection } from "./actors.ts";
import { approvalObjection } from "./approval.ts";
import { accountsOf, budgetObjection } from "./budget.ts";
import { type Facts, factsOf } from "./facts.ts";
import { gateObjection } from "./gates.ts";
import type { Policy } from "./policy.ts";
import { tagRuleObjection } from "./tag-rules.ts";
import { toolPolicyObjection } from "./tool-policy.ts";
import type { Usage } from "./usage.ts";
import { type Layer, layers, type Objection } from "./verdict.ts";
import { visibilityObjection } from "./visibility.ts";

export interface Question {
  readonly action: Action;
  /** For a resource: the operation it runs. Both must be allowed, whichever name the call came by. */
  readonly target?: Action | undefined;
  readonly caller: Caller;
  /** Absent while nothing is called yet: listing, describing, suggesting. Then only visibility is in question. */
  readonly args?: JsonObject;
  readonly usage?: Usage | undefined;
}

export type Decision =
  | { readonly kind: "allow" }
  | { readonly kind: "ask" | "deny"; readonly hidden: boolean; readonly objection: Objection };

/**
 * May this caller use this action, in this way, now? The one place where that is decided: listing, search,
 * description, suggestion, activation and invocation all ask here. No I/O and no clock; what it needs to know is given.
 */
export function decide(policy: Policy, question: Question): Decision {
  let strongest: Objection | undefined;
  for (const layer of policy.layers) {
    const objection = objectionOf(policy, layer, question) ?? targetObjection(policy, layer, question);
    if (objection === undefined) continue;
    if (objection.effect === "hide") return { kind: "deny", hidden: true, objection };
    if (strongest === undefined || (strongest.effect === "ask" && objection.effect === "deny")) strongest = objection;
  }
  if (strongest === undefined) return ALLOW;
  return { kind: strongest.effect === "ask" ? "ask" : "deny", hidden: false, objection: strongest };
}

/** What can be told before anything is called: whether the caller may know of the action, and whether it always asks. */
export function standingOf(policy: Policy, question: Question): { readonly visible: boolean; readonly asks: boolean } {
  const decision = decide(policy, question);
  return { visible: decision.kind === "allow" || !decision.hidden, asks: decision.kind === "ask" };
}

/** What each layer says, for operators: `explain` prints it. */
export function objections(
  policy: Policy,
  question: Question,
): readonly { readonly layer: Layer; readonly objection: Objection | undefined }[] {
  return layers.map((layer) => ({
    layer,
    objection: objectionOf(policy, layer, question) ?? targetObjection(policy, layer, question),
  }));
}

const ALLOW: Decision = Object.freeze({ kind: "allow" });

function targetObjection(policy: Policy, layer: Layer, question: Question): Objection | undefined {
  if (question.target === undefined) return undefined;
  const objection = objectionOf(policy, layer, { ...question, action: question.target });
  const { name } = question.target;
  return objection && { ...objection, about: name, rule: `${name}, which it runs: ${objection.rule}` };
}

function objectionOf(policy: Policy, layer: Layer, { action, caller, args, usage }: Question): Objection | undefined {
  let made: Facts | undefined;
  const facts = (): Facts => {
    made ??= factsOf(action, caller, policy.actors.get(caller.actor), args);
    return made;
  };
  switch (layer) {
    case "tool-policy":
      return toolPolicyObjection(policy.tools, action);
    case "gates":
      return gateObjection(policy.gates, action);
    case "tag-rules":
      return tagRuleObjection(policy.rules, facts, args !== undefined);
    case "visibility":
      return visibilityObjection(policy.visibility, action, caller);
    case "actor":
      return actorObjection(policy.actors, action, caller.actor);
    case "budget":
      return usage === undefined ? undefined : budgetObjection(accountsOf(policy.budgets, caller), usage);
    case "approval":
      return approvalObjection(action, caller, args, facts);
  }
}
