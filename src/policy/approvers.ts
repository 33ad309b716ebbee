import type { ApprovalRule } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { type Duration, durationMs } from "../core/duration.ts";
import { CALL_VARIABLES, compileCondition } from "../core/expression.ts";
import type { CategoryRules } from "./approval.ts";

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
  readonly categories: CategoryRules;
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
    expiresInMs: (expiresIn === undefined ? undefined : durationMs(expiresIn)) ?? DAY_MS,
    maxOpen,
  };
}

/** Why this person may not answer this question so; undefined: they may. Anybody with the role may say no. */
export function approverObjection(
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
