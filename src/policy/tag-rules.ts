import { QmError } from "../core/errors.ts";
import { CALL_VARIABLES, type Condition, compileCondition } from "../core/expression.ts";
import { type Duration, parseDuration } from "../core/runtime.ts";
import { type WorkBudget, WorkExceeded } from "../core/work-budget.ts";
import type { CallFacts } from "./call-facts.ts";
import { type Objection, pickStrongerObjection } from "./objection.ts";

/** A condition in CEL over `tool`, `actor`, `ctx` and `args`, and what follows when it holds. */
export interface TagRule {
  readonly name?: string;
  readonly rule: string;
  readonly effect: "hide" | "deny" | "ask";
  /** Told to the caller when the call is denied or needs a person. */
  readonly reason?: string;
  /** Of one that asks: who must agree. Absent: `user`. */
  readonly level?: string;
  /** Of one that asks: how long the question stands. Absent: as the policy says. */
  readonly expiresIn?: Duration;
}

export interface CompiledTagRule {
  readonly label: string;
  readonly condition: Condition;
  readonly effect: TagRule["effect"];
  readonly reason: string;
  readonly aboutArgs: boolean;
  readonly level: string | undefined;
  readonly expiresInMs: number | undefined;
}

export function compileTagRule(rule: TagRule): CompiledTagRule {
  const condition = compileCondition(rule.rule, CALL_VARIABLES);
  const aboutArgs = condition.mentions.has("args");
  if (aboutArgs && rule.effect === "hide") {
    throw new QmError(
      "invalid_expression",
      `rule ${JSON.stringify(rule.name ?? rule.rule)} hides by args, but what is listed has none yet`,
      {
        hint: "Use effect deny or ask for a rule about arguments.",
      },
    );
  }
  return {
    label: rule.name ?? rule.rule,
    condition,
    effect: rule.effect,
    reason:
      rule.reason ??
      (rule.effect === "ask" ? "A person must approve this call." : "The policy does not allow this call."),
    aboutArgs,
    level: rule.level,
    expiresInMs: rule.expiresIn === undefined ? undefined : parseDuration(rule.expiresIn),
  };
}

/** The strongest objection of all rules. A rule that cannot be evaluated counts as one that holds. */
export function checkTagRules(
  rules: readonly CompiledTagRule[],
  facts: () => CallFacts,
  withArgs: boolean,
  budget?: WorkBudget,
): Objection | undefined {
  let strongest: Objection | undefined;
  for (const rule of rules) {
    if (rule.aboutArgs && !withArgs) continue;
    if (strongest?.effect === "deny" && rule.effect !== "hide") continue;
    const held = evaluateCondition(rule.condition, facts(), budget);
    if (held === undefined) continue;
    const { effect, level = "user", expiresInMs } = rule;
    strongest = pickStrongerObjection(strongest, {
      layer: "tag-rules",
      effect,
      rule: rule.label + held.note,
      reason: held.unevaluated ? UNEVALUATED : rule.reason,
      ...(held.unevaluated ? { unevaluated: true } : {}),
      ...(effect === "ask" ? { level, expiresInMs } : {}),
    });
    if (rule.effect === "hide") break;
  }
  return strongest;
}

const UNEVALUATED = "A rule of the policy could not be evaluated: it needs more work than one call may do.";

/** Undefined when the rule does not hold. `note` tells the operator why one that failed counts as one that holds. */
function evaluateCondition(
  condition: Condition,
  facts: CallFacts,
  budget: WorkBudget | undefined,
): { readonly note: string; readonly unevaluated: boolean } | undefined {
  try {
    return condition.holds(facts, budget) ? { note: "", unevaluated: false } : undefined;
  } catch (thrown) {
    const note = ` (counted as true: ${thrown instanceof Error ? thrown.message : "it failed"})`;
    return { note, unevaluated: thrown instanceof WorkExceeded };
  }
}
