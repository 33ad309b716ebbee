import { QmError } from "../core/errors.ts";
import { CALL_VARIABLES, type Condition, compileCondition } from "../core/expression.ts";
import { listRequiredFields } from "../core/expression-analysis.ts";
import type { JsonObject } from "../core/json.ts";
import { type Duration, parseDuration } from "../core/runtime.ts";
import { type WorkBudget, WorkExceeded } from "../core/work-budget.ts";
import type { CallFacts } from "./call-facts.ts";
import { type Objection, pickStrongerObjection } from "./objection.ts";

/** A condition in CEL over `tool`, `actor`, `ctx` and `args`, and its effect when it is true. */
export interface TagRule {
  readonly name?: string;
  readonly rule: string;
  readonly effect: "hide" | "deny" | "ask";
  /** For the caller, when the call is denied or needs a person. */
  readonly reason?: string;
  /** For `ask`: who must approve. Default: `user`. */
  readonly level?: string;
  /** For `ask`. Default: the policy's. */
  readonly expiresIn?: Duration;
}

export type CompiledTagRule = ReturnType<typeof compileTagRule>;

export function compileTagRule({ rule, name: label = rule, effect, reason, level = "user", expiresIn }: TagRule) {
  const condition = compileCondition(rule, CALL_VARIABLES);
  const aboutArgs = condition.mentions.has("args");
  if (aboutArgs && effect === "hide") {
    const message = `rule ${JSON.stringify(label)} hides by args, but a listed action has none yet`;
    const hint = "Use effect deny or ask for a rule about arguments.";
    throw new QmError("invalid_expression", message, { hint });
  }
  const standard = effect === "ask" ? "A person must approve this call." : "The policy does not allow this call.";
  const expiresInMs = expiresIn === undefined ? undefined : parseDuration(expiresIn);
  const requiredArgs = listRequiredFields(rule, "args");
  return { label, condition, effect, reason: reason ?? standard, aboutArgs, requiredArgs, level, expiresInMs };
}

/** A rule that can be true for an action. `isSettled`: it is, for every caller and all arguments. */
export interface ApplicableRule {
  readonly rule: CompiledTagRule;
  readonly isSettled: boolean;
}

/** The strongest objection of these rules. A rule that cannot be evaluated counts as true. */
export function checkTagRules(
  rules: readonly ApplicableRule[],
  facts: () => CallFacts,
  args: JsonObject | undefined,
  budget?: WorkBudget,
): Objection | undefined {
  let strongest: Objection | undefined;
  for (const { rule, isSettled } of rules) {
    if (rule.aboutArgs && (args === undefined || rule.requiredArgs.some((name) => !Object.hasOwn(args, name))))
      continue;
    if (strongest?.effect === "deny" && rule.effect !== "hide") continue;
    const match = isSettled ? TRUE : evaluateCondition(rule.condition, facts(), budget);
    if (match === undefined) continue;
    const { effect, level, expiresInMs } = rule;
    strongest = pickStrongerObjection(strongest, {
      layer: "tag-rules",
      effect,
      rule: rule.label + match.note,
      reason: match.unevaluated ? UNEVALUATED : rule.reason,
      ...(match.unevaluated ? { unevaluated: true } : {}),
      ...(effect === "ask" ? { level, expiresInMs } : {}),
    });
    if (rule.effect === "hide") break;
  }
  return strongest;
}

const TRUE = { note: "", unevaluated: false };
const UNEVALUATED = "A rule of the policy could not be evaluated: it needs more work than one call may do.";

/** Undefined when the rule is false. `note` tells the operator why a failed rule counts as true. */
function evaluateCondition(condition: Condition, facts: CallFacts, budget: WorkBudget | undefined) {
  try {
    return condition.holds(facts, budget) ? TRUE : undefined;
  } catch (thrown) {
    const note = ` (counted as true: ${thrown instanceof Error ? thrown.message : "it failed"})`;
    return { note, unevaluated: thrown instanceof WorkExceeded };
  }
}
