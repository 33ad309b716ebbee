import type { Action, ApprovalRule } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { CALL_VARIABLES, type Condition, compileCondition } from "../core/expression.ts";
import type { JsonObject } from "../core/json.ts";
import { type Duration, parseDuration } from "../core/runtime.ts";
import type { WorkBudget } from "../core/work-budget.ts";
import type { CallFacts } from "./call-facts.ts";
import type { Objection } from "./objection.ts";
import type { Policy } from "./policy.ts";

const conditions = new WeakMap<object, Condition>();
type CategoryApprovalRules = ReadonlyMap<string, ApprovalRule>;
export const getApprovalRule = (action: Action, categories: CategoryApprovalRules): ApprovalRule =>
  action.requiresApproval ?? categories.get(action.category) ?? false;

/** Whether the rule needs a person for these arguments. A rule that fails asks. Without arguments, only `true` asks. */
export function checkApproval(
  rule: ApprovalRule,
  action: Action,
  caller: Caller,
  args: JsonObject | undefined,
  facts: () => CallFacts,
  budget?: WorkBudget,
): Objection | undefined {
  if (rule === false) return undefined;
  if (rule === true) return createAskObjection("requires approval");
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
    return createAskObjection(`not (${rule.autoApproveIf})`, rule.level, rule.expiresIn);
  } catch (thrown) {
    // The caller may have caused the failure, so it must not lower the level.
    const { level, expiresIn } = typeof rule === "object" ? rule : { level: "admin" };
    const failed = `its approval rule failed: ${thrown instanceof Error ? thrown.message : "unknown"}`;
    return createAskObjection(failed, level, expiresIn);
  }
}

/** Each call asks until a person has accepted the action. An `isAccepted` that throws asks, too. */
export function checkAcceptance({ isAccepted }: Action): Objection | undefined {
  try {
    if (isAccepted === undefined || isAccepted() === true) return undefined;
  } catch {
    // Then it counts as not accepted.
  }
  const reason = "No person has accepted it yet, so a person must approve this call.";
  return { ...createAskObjection("not accepted yet"), reason, needsAcceptance: true };
}

function getCondition(rule: { readonly autoApproveIf: string }): Condition {
  let condition = conditions.get(rule);
  if (condition === undefined) {
    condition = compileCondition(rule.autoApproveIf, CALL_VARIABLES);
    conditions.set(rule, condition);
  }
  return condition;
}

function createAskObjection(rule: string, level = "user", expiresIn?: Duration): Objection {
  const expiresInMs = expiresIn === undefined ? undefined : parseDuration(expiresIn);
  const who = level === "admin" ? "An administrator" : "A person";
  const reason = `${who} must approve this call.`;
  return { layer: "approval", effect: "ask", rule: `${rule} [${level}]`, reason, level, expiresInMs };
}

export function canAsk({ approvals, rules }: Pick<Policy, "approvals" | "rules">, actions: readonly Action[]): boolean {
  return (
    rules.some(({ effect }) => effect === "ask") ||
    [...approvals.categories.values()].some((rule) => rule !== false) ||
    actions.some(({ requiresApproval = false, isAccepted }) => requiresApproval !== false || isAccepted !== undefined)
  );
}

export interface ApprovalSettings {
  /** By category, for actions without a rule of their own. */
  readonly categories?: Readonly<Record<string, ApprovalRule>>;
  /** The roles that may approve, by level. `user` and `admin` have defaults. */
  readonly levels?: Readonly<Record<string, { readonly roles: readonly string[] }>>;
  /** Whether users may approve their own calls. Default: no. */
  readonly allowSelf?: boolean;
  /** Whether the calling client asks its own user, if it can. Default: yes. */
  readonly askClient?: boolean;
  /** Default: a day. */
  readonly expiresIn?: Duration;
  /** How many calls of a session may wait at the same time. Default: 100. */
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

/** The role of the unidentified person at the client that made the call. */
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
    expiresInMs: (expiresIn && parseDuration(expiresIn)) || DAY_MS,
    maxOpen,
  };
}

/** Why this person may not give this answer, or undefined if they may. Denying one's own call is allowed. */
export function checkApprover(
  { levels, allowSelf }: CompiledApprovals,
  asked: { readonly level: string; readonly caller: Caller },
  approver: { readonly id: string; readonly roles: readonly string[] },
  decision: "approved" | "denied",
): string | undefined {
  // An undefined level is for the role of its name, and for administrators.
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
