import type { Action, ApprovalStanding } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { JsonObject } from "../core/json.ts";
import { WORK_LIMIT, type WorkBudget } from "../core/work.ts";
import { actorObjection } from "./actors.ts";
import { approvalObjection, approvalRuleOf } from "./approval.ts";
import { accountsOf, budgetObjection } from "./budget.ts";
import { type Facts, factsOf } from "./facts.ts";
import { gateObjection } from "./gates.ts";
import type { Policy } from "./policy.ts";
import { tagRuleObjection } from "./tag-rules.ts";
import { toolPolicyObjection } from "./tool-policy.ts";
import type { Usage } from "./usage.ts";
import { type Layer, layers, type Objection, stronger } from "./verdict.ts";
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
  // All rules share one budget: many rules must not hold the process longer than one.
  const budget = { left: WORK_LIMIT };
  for (const layer of policy.layers) {
    const objection = layerObjection(policy, layer, question, budget);
    if (objection === undefined) continue;
    if (objection.effect === "hide") return { kind: "deny", hidden: true, objection };
    strongest = stronger(strongest, objection);
  }
  if (strongest === undefined) return ALLOW;
  return { kind: strongest.effect === "ask" ? "ask" : "deny", hidden: false, objection: strongest };
}

/** What can be told before anything is called. */
export interface Standing {
  /** Whether the caller may know of the action. */
  readonly visible: boolean;
  /** Whether a person must agree to its calls. Rules that speak of arguments are not known before there are any. */
  readonly approval: ApprovalStanding;
}

export function standingOf(policy: Policy, question: Question): Standing {
  const decision = decide(policy, question);
  const asked = [question.action, question.target].some(
    (action) => action !== undefined && approvalRuleOf(action, policy.approvals.categories) !== false,
  );
  return {
    visible: decision.kind === "allow" || !decision.hidden,
    approval: decision.kind === "ask" ? "always" : asked ? "conditional" : "never",
  };
}

/** What each layer says, for operators: `explain` prints it. */
export function objections(
  policy: Policy,
  question: Question,
): readonly { readonly layer: Layer; readonly objection: Objection | undefined }[] {
  const budget = { left: WORK_LIMIT };
  return layers.map((layer) => ({
    layer,
    objection: layerObjection(policy, layer, question, budget),
  }));
}

const ALLOW: Decision = Object.freeze({ kind: "allow" });

/** Of the action and of what it runs; the stronger one, where both are objected to. */
function layerObjection(policy: Policy, layer: Layer, question: Question, budget: WorkBudget): Objection | undefined {
  const own = objectionOf(policy, layer, question, budget);
  const about = question.target === undefined ? undefined : targetObjection(policy, layer, question, budget);
  return about === undefined ? own : stronger(own, about);
}

function targetObjection(policy: Policy, layer: Layer, question: Question, budget: WorkBudget): Objection | undefined {
  if (question.target === undefined) return undefined;
  const objection = objectionOf(policy, layer, { ...question, action: question.target }, budget);
  const { name } = question.target;
  return objection && { ...objection, about: name, rule: `${name}, which it runs: ${objection.rule}` };
}

function objectionOf(
  policy: Policy,
  layer: Layer,
  { action, caller, args, usage }: Question,
  budget: WorkBudget,
): Objection | undefined {
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
      return tagRuleObjection(policy.rules, facts, args !== undefined, budget);
    case "visibility":
      return visibilityObjection(policy.visibility, action, caller);
    case "actor":
      return actorObjection(policy.actors, action, caller);
    case "budget":
      return usage === undefined ? undefined : budgetObjection(accountsOf(policy.budgets, caller), usage);
    case "approval":
      return approvalObjection(
        approvalRuleOf(action, policy.approvals.categories),
        action,
        caller,
        args,
        facts,
        budget,
      );
  }
}
