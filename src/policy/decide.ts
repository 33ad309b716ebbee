import type { Action, ApprovalRequirement } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { JsonObject } from "../core/json.ts";
import { WORK_LIMIT, type WorkBudget } from "../core/work-budget.ts";
import { checkActor } from "./actors.ts";
import { checkApproval, getApprovalRule } from "./approval-rules.ts";
import type { BudgetUsage } from "./budget.ts";
import { checkBudget, listAccounts } from "./budget.ts";
import { type CallFacts, toCallFacts } from "./call-facts.ts";
import { type Objection, type PolicyLayer, pickStrongerObjection, policyLayers } from "./objection.ts";
import type { Policy } from "./policy.ts";
import { checkTagRules } from "./tag-rules.ts";
import { checkGates, checkToolPolicy, checkVisibility } from "./tool-policy.ts";

export interface PolicyQuestion {
  readonly action: Action;
  /** For a resource: the operation it runs. Both must be allowed, whichever name the call came by. */
  readonly target?: Action | undefined;
  readonly caller: Caller;
  /** Absent while nothing is called yet: listing, describing, suggesting. Then only visibility is in question. */
  readonly args?: JsonObject;
  readonly usage?: BudgetUsage | undefined;
}

export type PolicyDecision =
  | { readonly kind: "allow" }
  | { readonly kind: "ask" | "deny"; readonly hidden: boolean; readonly objection: Objection };

/**
 * May this caller use this action, in this way, now? The one place where that is decided: listing, search,
 * description, suggestion, activation and invocation all ask here. No I/O and no clock; what it needs to know is given.
 */
export function decide(policy: Policy, question: PolicyQuestion): PolicyDecision {
  let strongest: Objection | undefined;
  // All rules share one budget: many rules must not hold the process longer than one.
  const budget = { left: WORK_LIMIT };
  for (const layer of policy.layers) {
    const objection = checkLayer(policy, layer, question, budget);
    if (objection === undefined) continue;
    if (objection.effect === "hide") return { kind: "deny", hidden: true, objection };
    strongest = pickStrongerObjection(strongest, objection);
  }
  if (strongest === undefined) return ALLOW;
  return { kind: strongest.effect === "ask" ? "ask" : "deny", hidden: false, objection: strongest };
}

/** What can be told before anything is called. */
export interface PolicyAccess {
  /** Whether the caller may know of the action. */
  readonly visible: boolean;
  /** Whether a person must agree to its calls. Rules that speak of arguments are not known before there are any. */
  readonly approval: ApprovalRequirement;
}

export function evaluateAccess(policy: Policy, question: PolicyQuestion): PolicyAccess {
  const decision = decide(policy, question);
  const asked = [question.action, question.target].some(
    (action) => action !== undefined && getApprovalRule(action, policy.approvals.categories) !== false,
  );
  return {
    visible: decision.kind === "allow" || !decision.hidden,
    approval: decision.kind === "ask" ? "always" : asked ? "conditional" : "never",
  };
}

/** What each layer says, for operators: `explain` prints it. */
export function listObjections(
  policy: Policy,
  question: PolicyQuestion,
): readonly { readonly layer: PolicyLayer; readonly objection: Objection | undefined }[] {
  const budget = { left: WORK_LIMIT };
  return policyLayers.map((layer) => ({
    layer,
    objection: checkLayer(policy, layer, question, budget),
  }));
}

const ALLOW: PolicyDecision = Object.freeze({ kind: "allow" });

/** Of the action and of what it runs; the stronger one, where both are objected to. */
function checkLayer(
  policy: Policy,
  layer: PolicyLayer,
  question: PolicyQuestion,
  budget: WorkBudget,
): Objection | undefined {
  const own = checkAction(policy, layer, question, budget);
  const about = question.target === undefined ? undefined : checkTarget(policy, layer, question, budget);
  return about === undefined ? own : pickStrongerObjection(own, about);
}

function checkTarget(
  policy: Policy,
  layer: PolicyLayer,
  question: PolicyQuestion,
  budget: WorkBudget,
): Objection | undefined {
  if (question.target === undefined) return undefined;
  const objection = checkAction(policy, layer, { ...question, action: question.target }, budget);
  const { name } = question.target;
  return objection && { ...objection, about: name, rule: `${name}, which it runs: ${objection.rule}` };
}

function checkAction(
  policy: Policy,
  layer: PolicyLayer,
  { action, caller, args, usage }: PolicyQuestion,
  budget: WorkBudget,
): Objection | undefined {
  let made: CallFacts | undefined;
  const facts = (): CallFacts => {
    made ??= toCallFacts(action, caller, policy.actors.get(caller.actor), args);
    return made;
  };
  switch (layer) {
    case "tool-policy":
      return checkToolPolicy(policy.tools, action);
    case "gates":
      return checkGates(policy.gates, action);
    case "tag-rules":
      return checkTagRules(policy.rules, facts, args !== undefined, budget);
    case "visibility":
      return checkVisibility(policy.visibility, action, caller);
    case "actor":
      return checkActor(policy.actors, action, caller);
    case "budget":
      return usage === undefined ? undefined : checkBudget(listAccounts(policy.budgets, caller), usage);
    case "approval":
      return checkApproval(getApprovalRule(action, policy.approvals.categories), action, caller, args, facts, budget);
  }
}
