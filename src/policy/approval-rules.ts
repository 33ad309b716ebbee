import type { Action, ApprovalRule } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { CALL_VARIABLES, type Condition, compileCondition } from "../core/expression.ts";
import type { JsonObject } from "../core/json.ts";
import { type Duration, parseDuration } from "../core/runtime.ts";
import type { WorkBudget } from "../core/work-budget.ts";
import type { CallFacts } from "./call-facts.ts";
import type { Objection } from "./objection.ts";

const conditions = new WeakMap<object, Condition>();

/** What holds for an action that says nothing itself: what its category does, and never where that says nothing. */
type CategoryApprovalRules = ReadonlyMap<string, ApprovalRule>;

export function getApprovalRule(action: Action, categories: CategoryApprovalRules): ApprovalRule {
  return action.requiresApproval ?? categories.get(action.category) ?? false;
}

/**
 * Whether the rule for the action wants a person's agreement for these arguments. Whatever goes wrong, it asks. Without
 * arguments only a rule that does not depend on them can be told.
 */
export function checkApproval(
  rule: ApprovalRule,
  action: Action,
  caller: Caller,
  args: JsonObject | undefined,
  facts: () => CallFacts,
  budget?: WorkBudget,
): Objection | undefined {
  if (rule === false) return undefined;
  if (rule === true) return createAskObjection("requires approval", "user");
  if (args === undefined) return undefined;
  try {
    if (typeof rule === "function") {
      const level: unknown = rule({ action: action.name, args, caller });
      if (level === "auto") return undefined;
      return typeof level === "string" && level !== ""
        ? createAskObjection("its approval policy", level)
        : createAskObjection("its approval policy named no level", "admin");
    }
    if (getCondition(rule).holds(facts(), budget)) return undefined;
    const { level = "user", expiresIn } = rule;
    return createAskObjection(
      `not (${rule.autoApproveIf})`,
      level,
      expiresIn === undefined ? undefined : parseDuration(expiresIn),
    );
  } catch (thrown) {
    // What makes it fail may be chosen by the caller: nobody less than for any other call may agree then.
    const { level = "user", expiresIn } = typeof rule === "object" ? rule : { level: "admin" };
    const failed = `its approval rule failed: ${thrown instanceof Error ? thrown.message : "unknown"}`;
    return createAskObjection(failed, level, expiresIn === undefined ? undefined : parseDuration(expiresIn));
  }
}

function getCondition(rule: { readonly autoApproveIf: string }): Condition {
  let condition = conditions.get(rule);
  if (condition === undefined) {
    condition = compileCondition(rule.autoApproveIf, CALL_VARIABLES);
    conditions.set(rule, condition);
  }
  return condition;
}

function createAskObjection(rule: string, level: string, expiresInMs?: number): Objection {
  const who = level === "admin" ? "An administrator" : "A person";
  const reason = `${who} must approve this call.`;
  return { layer: "approval", effect: "ask", rule: `${rule} [${level}]`, reason, level, expiresInMs };
}

/** Whether any call can come to wait for a person. */
export function canAsk({ approvals, rules }: ApprovalPolicy, actions: readonly Action[]): boolean {
  return (
    rules.some(({ effect }) => effect === "ask") ||
    [...approvals.categories.values()].some((rule) => rule !== false) ||
    actions.some(({ requiresApproval = false }) => requiresApproval !== false)
  );
}

interface ApprovalPolicy {
  readonly approvals: { readonly categories: CategoryApprovalRules };
  readonly rules: readonly { readonly effect: string }[];
}

export interface ApprovalSettings {
  /** What holds for the actions of a category that say nothing themselves. */
  readonly categories?: Readonly<Record<string, ApprovalRule>>;
  /** The roles that may agree, by level. `user` and `admin` are there unless they are defined anew. */
  readonly levels?: Readonly<Record<string, { readonly roles: readonly string[] }>>;
  /** Whether the one for whom a call was made may agree to it. Absent: no. */
  readonly allowSelf?: boolean;
  /** Whether the person at the client that made the call is asked, where the client can ask. Absent: yes. */
  readonly askClient?: boolean;
  /** How long a question stands that does not say. Absent: a day. */
  readonly expiresIn?: Duration;
  /** How many of one session's calls may wait at the same time. Absent: 100. */
  readonly maxOpen?: number;
}

export interface CompiledApprovals {
  readonly categories: CategoryApprovalRules;
  readonly levels: ReadonlyMap<string, readonly string[]>;
  readonly allowSelf: boolean;
  readonly askClient: boolean;
  readonly expiresInMs: number;
  readonly maxOpen: number;
}

const DAY_MS = 86_400_000;

/** The person at the client that made the call: known by nothing but being there. */
export const CLIENT_ROLE = "user";

const standardLevels = { user: { roles: [CLIENT_ROLE, "approver", "admin"] }, admin: { roles: ["admin"] } };

/** Throws `invalid_expression` for a rule that cannot be compiled. */
export function compileApprovals(settings: ApprovalSettings): CompiledApprovals {
  const { categories = {}, levels, allowSelf = false, askClient = true, expiresIn, maxOpen = 100 } = settings;
  for (const rule of Object.values(categories)) {
    if (typeof rule === "object") compileCondition(rule.autoApproveIf, CALL_VARIABLES);
  }
  return {
    categories: new Map(Object.entries(categories)),
    levels: new Map(Object.entries({ ...standardLevels, ...levels }).map(([level, { roles }]) => [level, roles])),
    allowSelf,
    askClient,
    expiresInMs: (expiresIn === undefined ? undefined : parseDuration(expiresIn)) ?? DAY_MS,
    maxOpen,
  };
}

/** Why this person may not answer this question so; undefined: they may. Anybody with the role may say no. */
export function checkApprover(
  { levels, allowSelf }: CompiledApprovals,
  asked: { readonly level: string; readonly caller: Caller },
  approver: { readonly id: string; readonly roles: readonly string[] },
  decision: "approved" | "denied",
): string | undefined {
  // A level that nobody has defined is for the role of its name, and for administrators.
  const roles = levels.get(asked.level) ?? [asked.level, "admin"];
  if (!roles.some((role) => approver.roles.includes(role))) {
    return `${approver.id} has none of the roles that may agree to it: ${roles.join(", ")}`;
  }
  const { user, person } = asked.caller;
  if (decision === "approved" && !allowSelf && (approver.id === user?.id || approver.id === person)) {
    return `${approver.id} is the one it was asked for, and may not agree to it alone`;
  }
  return undefined;
}
