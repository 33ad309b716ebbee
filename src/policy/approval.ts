import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { CALL_VARIABLES, type Condition, compileCondition } from "../core/expression.ts";
import type { JsonObject } from "../core/json.ts";
import type { Facts } from "./facts.ts";
import type { Objection } from "./verdict.ts";

const conditions = new WeakMap<object, Condition>();

/**
 * Whether the action's own rule wants a person's agreement for these arguments. Whatever goes wrong, it asks. Without
 * arguments only a rule that does not depend on them can be told.
 */
export function approvalObjection(
  action: Action,
  caller: Caller,
  args: JsonObject | undefined,
  facts: () => Facts,
): Objection | undefined {
  const rule = action.requiresApproval;
  if (rule === false) return undefined;
  if (rule === true) return ask("requires approval", "user");
  if (args === undefined) return undefined;
  try {
    if (typeof rule === "function") {
      const level = rule({ action: action.name, args, caller });
      return level === "auto" ? undefined : ask("its approval policy", level);
    }
    return conditionOf(rule).holds(facts()) ? undefined : ask(`not (${rule.autoApproveIf})`, rule.level ?? "user");
  } catch (thrown) {
    return ask(`its approval rule failed: ${thrown instanceof Error ? thrown.message : "unknown"}`, "user");
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

function ask(rule: string, level: string): Objection {
  const who = level === "admin" ? "An administrator" : "A person";
  return { layer: "approval", effect: "ask", rule: `${rule} [${level}]`, reason: `${who} must approve this call.` };
}
