import type { Caller } from "../core/caller.ts";
import type { Spent, Usage } from "./usage.ts";
import type { Objection } from "./verdict.ts";

export interface BudgetLimits {
  readonly calls?: number;
  /** Milliseconds of running time. */
  readonly ms?: number;
  /** Bytes of results. */
  readonly bytes?: number;
}

/** How much may be drawn: per turn, per session and per tenant. */
export interface Budgets {
  readonly turn?: BudgetLimits;
  readonly session?: BudgetLimits;
  readonly tenant?: BudgetLimits;
}

/** One account that a call is charged to. */
export interface Account {
  readonly key: string;
  readonly scope: keyof Budgets;
  readonly limits: BudgetLimits;
}

/** The accounts a caller draws on. A call outside any turn counts to the session's one nameless turn. */
export function accountsOf(budgets: Budgets, { session, turn, tenant }: Caller): readonly Account[] {
  const accounts: Account[] = [];
  if (budgets.turn)
    accounts.push({ key: `turn:${JSON.stringify([session, turn ?? ""])}`, scope: "turn", limits: budgets.turn });
  if (budgets.session)
    accounts.push({ key: `session:${JSON.stringify(session)}`, scope: "session", limits: budgets.session });
  if (budgets.tenant && tenant !== undefined)
    accounts.push({ key: `tenant:${JSON.stringify(tenant)}`, scope: "tenant", limits: budgets.tenant });
  return accounts;
}

export function budgetObjection(accounts: readonly Account[], usage: Usage): Objection | undefined {
  for (const { key, scope, limits } of accounts) {
    const spent = usage.get(key);
    for (const kind of ["calls", "ms", "bytes"] as const) {
      const limit = limits[kind];
      if (limit !== undefined && spent !== undefined && spent[kind] >= limit) return exceeded(scope, kind, limit);
    }
  }
  return undefined;
}

export function exceeded(scope: keyof Budgets, kind: keyof Spent, limit: number): Objection {
  const what = { calls: "calls", ms: "milliseconds of running time", bytes: "bytes of results" }[kind];
  return {
    layer: "budget",
    effect: "deny",
    rule: `${scope}.${kind}: ${limit}`,
    reason: `The budget of ${limit} ${what} for this ${scope} is used up.`,
  };
}
