import type { Action, ApprovalRequirement } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { JsonObject } from "../core/json.ts";
import { WORK_LIMIT, type WorkBudget } from "../core/work-budget.ts";
import { checkActor } from "./actors.ts";
import { checkAcceptance, checkApproval, getApprovalRule } from "./approval-rules.ts";
import { type BudgetUsage, checkBudget, listAccounts } from "./budget.ts";
import { type CallFacts, toCallFacts } from "./call-facts.ts";
import { type Objection, type PolicyLayer, pickStrongerObjection, policyLayers } from "./objection.ts";
import type { Policy } from "./policy.ts";
import { checkTagRules } from "./tag-rules.ts";
import { checkGates, checkToolPolicy, checkVisibility } from "./tool-policy.ts";
import { checkWorld } from "./worlds.ts";

export interface PolicyQuestion {
  readonly action: Action;
  /** For a resource: the operation it runs. Both must be allowed. */
  readonly target?: Action | undefined;
  readonly caller: Caller;
  /** Absent when nothing is called: listing, describing, suggesting. */
  readonly args?: JsonObject;
  readonly usage?: BudgetUsage | undefined;
}

export type PolicyDecision =
  | { readonly kind: "allow" }
  | { readonly kind: "ask" | "deny"; readonly hidden: boolean; readonly objection: Objection };

/** The one place where listing, search, suggestion, activation and invocation are decided. No I/O, no clock. */
export function decide(policy: Policy, question: PolicyQuestion): PolicyDecision {
  let strongest: Objection | undefined;
  // All rules share one work budget, so that many rules cannot block the process longer than one.
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

/** Decides without arguments whether the caller may see the action, and whether its calls need approval. */
export function evaluateAccess(policy: Policy, question: PolicyQuestion): Access {
  const decision = decide(policy, question);
  const canAsk = [question.action, question.target].some(
    (action) => action !== undefined && getApprovalRule(action, policy.approvals.categories) !== false,
  );
  const approval: ApprovalRequirement = decision.kind === "ask" ? "always" : canAsk ? "conditional" : "never";
  return ACCESS[approval][decision.kind === "deny" && decision.hidden ? "hidden" : "visible"];
}

export type Access = { readonly visible: boolean; readonly approval: ApprovalRequirement };

const createAccess = (approval: ApprovalRequirement) => ({
  visible: Object.freeze({ visible: true, approval }),
  hidden: Object.freeze({ visible: false, approval }),
});

// One object for each answer, because large catalogs keep many.
const ACCESS = {
  always: createAccess("always"),
  conditional: createAccess("conditional"),
  never: createAccess("never"),
};

/** Whether `evaluateAccess` always gives all callers with the same actor the same answer about an action. */
export const hasSharedAccess = ({ visibility, gates, ruleIndex }: Policy, action: Action): boolean =>
  visibility === undefined &&
  action.owner === undefined &&
  action.isAccepted === undefined &&
  gates.every(({ guards }) => guards.findMatch(action) === undefined) &&
  ruleIndex
    .findRules(action)
    .every(({ rule, isSettled }) => isSettled || rule.aboutArgs || !rule.condition.mentions.has("ctx"));

export function listObjections(policy: Policy, question: PolicyQuestion) {
  const budget = { left: WORK_LIMIT };
  return policyLayers.map((layer) => ({ layer, objection: checkLayer(policy, layer, question, budget) }));
}

const ALLOW: PolicyDecision = Object.freeze({ kind: "allow" });

/** The stronger objection to the action and to the operation it runs. */
function checkLayer(policy: Policy, layer: PolicyLayer, question: PolicyQuestion, budget: WorkBudget) {
  const own = checkAction(policy, layer, question, budget);
  const { target } = question;
  if (target === undefined) return own;
  const objection = checkAction(policy, layer, { ...question, action: target }, budget);
  if (objection === undefined) return own;
  const rule = `${target.name}, which it runs: ${objection.rule}`;
  return pickStrongerObjection(own, { ...objection, about: target.name, rule });
}

function checkAction(
  policy: Policy,
  layer: PolicyLayer,
  { action, caller, args, usage }: PolicyQuestion,
  budget: WorkBudget,
): Objection | undefined {
  let facts: CallFacts | undefined;
  const getFacts = (): CallFacts => {
    facts ??= toCallFacts(action, caller, policy.actors.get(caller.actor), args);
    return facts;
  };
  const { categories } = policy.approvals;
  switch (layer) {
    case "tool-policy":
      return checkToolPolicy(policy.tools, action);
    case "gates":
      return checkGates(policy.gates, action);
    case "tag-rules":
      return checkTagRules(policy.ruleIndex.findRules(action), getFacts, args, budget);
    case "visibility":
      return checkVisibility(policy.visibility, action, caller);
    case "actor":
      return checkActor(policy.actors, action, caller);
    case "world":
      return checkWorld(policy.worlds, policy.actors.get(caller.actor)?.world, action, caller.actor);
    case "budget":
      return usage === undefined ? undefined : checkBudget(listAccounts(policy, caller), usage);
    case "approval": {
      const objection = checkApproval(getApprovalRule(action, categories), action, caller, args, getFacts, budget);
      const unaccepted = checkAcceptance(action);
      return unaccepted === undefined ? objection : pickStrongerObjection(objection, unaccepted);
    }
  }
}
