import type { Caller } from "../core/caller.ts";
import type { Objection } from "./objection.ts";

export type UsageTotals = { readonly calls: number; readonly ms: number; readonly bytes: number };
export type BudgetUsage = ReadonlyMap<string, UsageTotals>;

export interface UsageStore {
  read(keys: readonly string[]): Promise<BudgetUsage>;
  /** Adds one call to every account, or to none and answers the full one's key. Atomic across processes. */
  charge(
    entries: readonly { readonly key: string; readonly maxCalls?: number }[],
  ): Promise<{ readonly ok: true } | { readonly ok: false; readonly key: string }>;
  settle(keys: readonly string[], ms: number, bytes: number): Promise<void>;
  /** Removes accounts of named turns that were not charged since then, except those of unfinished turns. */
  prune(before: Date): Promise<void>;
}

export interface BudgetLimits {
  readonly calls?: number;
  /** Milliseconds of running time. */
  readonly ms?: number;
  readonly bytes?: number;
}

export type Budgets = { readonly turn?: BudgetLimits; readonly session?: BudgetLimits; readonly tenant?: BudgetLimits };
type BudgetAccount = { readonly key: string; readonly scope: keyof Budgets; readonly limits: BudgetLimits };

export const toAccountKey = (scope: keyof Budgets, id: unknown): string => `${scope}:${JSON.stringify(id)}`;

/** The accounts that a call is charged to. Calls without a turn count to one nameless turn of the session. */
export function listAccounts(budgets: Budgets, { session, turn = "", tenant }: Caller): readonly BudgetAccount[] {
  const ids = { turn: [session, turn], session, tenant };
  return (["turn", "session", "tenant"] as const).flatMap((scope) => {
    const limits = budgets[scope];
    if (limits === undefined || ids[scope] === undefined) return [];
    return [{ key: toAccountKey(scope, ids[scope]), scope, limits }];
  });
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
  const reason = `The budget of ${limit} ${what} for this ${scope} is used up.`;
  return { layer: "budget", effect: "deny", rule: `${scope}.${kind}: ${limit}`, reason };
}
