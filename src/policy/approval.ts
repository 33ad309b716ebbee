import type { Action, ApprovalRule } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { durationMs } from "../core/duration.ts";
import { CALL_VARIABLES, type Condition, compileCondition } from "../core/expression.ts";
import type { JsonObject } from "../core/json.ts";
import type { WorkBudget } from "../core/work.ts";
import type { Facts } from "./facts.ts";
import type { Objection } from "./verdict.ts";

const conditions = new WeakMap<object, Condition>();

/** What holds for an action that says nothing itself: what its category does, and never where that says nothing. */
export type CategoryRules = ReadonlyMap<string, ApprovalRule>;

export function approvalRuleOf(action: Action, categories: CategoryRules): ApprovalRule {
  return action.requiresApproval ?? categories.get(action.category) ?? false;
}

/**
 * Whether the rule for the action wants a person's agreement for these arguments. Whatever goes wrong, it asks. Without
 * arguments only a rule that does not depend on them can be told.
 */
export function approvalObjection(
  rule: ApprovalRule,
  action: Action,
  caller: Caller,
  args: JsonObject | undefined,
  facts: () => Facts,
  budget?: WorkBudget,
): Objection | undefined {
  if (rule === false) return undefined;
  if (rule === true) return ask("requires approval", "user");
  if (args === undefined) return undefined;
  try {
    if (typeof rule === "function") {
      const level: unknown = rule({ action: action.name, args, caller });
      if (level === "auto") return undefined;
      return typeof level === "string" && level !== ""
        ? ask("its approval policy", level)
        : ask("its approval policy named no level", "admin");
    }
    if (conditionOf(rule).holds(facts(), budget)) return undefined;
    const { level = "user", expiresIn } = rule;
    return ask(`not (${rule.autoApproveIf})`, level, expiresIn === undefined ? undefined : durationMs(expiresIn));
  } catch (thrown) {
    // What makes it fail may be chosen by the caller: nobody less than for any other call may agree then.
    const { level = "user", expiresIn } = typeof rule === "object" ? rule : { level: "admin" };
    const failed = `its approval rule failed: ${thrown instanceof Error ? thrown.message : "unknown"}`;
    return ask(failed, level, expiresIn === undefined ? undefined : durationMs(expiresIn));
  }
}

function conditionOf(rule: { readonly autoApproveIf: string }): Condition {
  let condition = conditions.get(rule);
  if (condition === undefined) {
    condition = compileCondition(rule.autoApproveIf, CALL_VARIABLES);
    conditions.set(rule, condition);
  }
  return condition;
}

function ask(rule: string, level: string, expiresInMs?: number): Objection {
  const who = level === "admin" ? "An administrator" : "A person";
  const reason = `${who} must approve this call.`;
  return { layer: "approval", effect: "ask", rule: `${rule} [${level}]`, reason, level, expiresInMs };
}

/** Whether any call can come to wait for a person. */
export function canAsk({ approvals, rules }: AskingPolicy, actions: readonly Action[]): boolean {
  return (
    rules.some(({ effect }) => effect === "ask") ||
    [...approvals.categories.values()].some((rule) => rule !== false) ||
    actions.some(({ requiresApproval = false }) => requiresApproval !== false)
  );
}

interface AskingPolicy {
  readonly approvals: { readonly categories: CategoryRules };
  readonly rules: readonly { readonly effect: string }[];
}
