import type { Caller } from "../core/caller.ts";
import type { Objection } from "./objection.ts";

/** What was drawn on one account so far. */
export interface UsageTotals {
  readonly calls: number;
  readonly ms: number;
  readonly bytes: number;
}

export type BudgetUsage = ReadonlyMap<string, UsageTotals>;

/** Keeps the accounts that budgets are held against. */
export interface UsageStore {
  read(keys: readonly string[]): Promise<BudgetUsage>;
  /**
   * Adds one call to every account, or to none when one of them has reached its `maxCalls`; that one is named. Exact
   * however many processes charge at the same time, so that parallel calls cannot slip through together.
   */
  charge(
    entries: readonly { readonly key: string; readonly maxCalls?: number }[],
  ): Promise<{ readonly ok: true } | { readonly ok: false; readonly key: string }>;
  /** Adds what a call has used, once that is known. */
  settle(keys: readonly string[], ms: number, bytes: number): Promise<void>;
}

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
interface BudgetAccount {
  readonly key: string;
  readonly scope: keyof Budgets;
  readonly limits: BudgetLimits;
}

/** The accounts a caller draws on. A call outside any turn counts to the session's one nameless turn. */
export function listAccounts(budgets: Budgets, { session, turn, tenant }: Caller): readonly BudgetAccount[] {
  const accounts: BudgetAccount[] = [];
  if (budgets.turn)
    accounts.push({ key: `turn:${JSON.stringify([session, turn ?? ""])}`, scope: "turn", limits: budgets.turn });
  if (budgets.session)
    accounts.push({ key: `session:${JSON.stringify(session)}`, scope: "session", limits: budgets.session });
  if (budgets.tenant && tenant !== undefined)
    accounts.push({ key: `tenant:${JSON.stringify(tenant)}`, scope: "tenant", limits: budgets.tenant });
  return accounts;
}

export function checkBudget(accounts: readonly BudgetAccount[], usage: BudgetUsage): Objection | undefined {
  for (const { key, scope, limits } of accounts) {
    const spent = usage.get(key);
    for (const kind of ["calls", "ms", "bytes"] as const) {
      const limit = limits[kind];
      if (limit !== undefined && spent !== undefined && spent[kind] >= limit)
        return createBudgetObjection(scope, kind, limit);
    }
  }
  return undefined;
}

export function createBudgetObjection(scope: keyof Budgets, kind: keyof UsageTotals, limit: number): Objection {
  const what = { calls: "calls", ms: "milliseconds of running time", bytes: "bytes of results" }[kind];
  return {
    layer: "budget",
    effect: "deny",
    rule: `${scope}.${kind}: ${limit}`,
    reason: `The budget of ${limit} ${what} for this ${scope} is used up.`,
  };
}
