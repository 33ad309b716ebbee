import type { Caller } from "../core/caller.ts";
import { omitUndefined } from "../core/json.ts";
import {
  type Budgets,
  type BudgetUsage,
  createBudgetObjection,
  listAccounts,
  type UsageStore,
} from "../policy/budget.ts";
import type { Objection } from "../policy/objection.ts";

export type BudgetMeter = ReturnType<typeof createBudgetMeter>;

/** Counts calls against budgets. Does nothing, at no cost, for a caller without a budget. */
export function createBudgetMeter(store: UsageStore, budgets: () => Budgets) {
  const findAccounts = (caller: Caller) => {
    const accounts = listAccounts(budgets(), caller);
    return accounts.length === 0 ? undefined : { accounts, keys: accounts.map(({ key }) => key) };
  };
  return {
    read(caller: Caller): Promise<BudgetUsage> | undefined {
      const found = findAccounts(caller);
      return found && store.read(found.keys);
    },
    /** Charges one call or answers the objection. It has the last word: parallel calls may all be decided before. */
    charge(caller: Caller): Promise<Objection | undefined> | undefined {
      const { accounts } = findAccounts(caller) ?? {};
      if (accounts === undefined) return undefined;
      const entries = accounts.map(({ key, limits }) => omitUndefined({ key, maxCalls: limits.calls }));
      return store.charge(entries).then((charged) => {
        const full = charged.ok ? undefined : accounts.find(({ key }) => key === charged.key);
        return full && createBudgetObjection(full.scope, "calls", full.limits.calls ?? 0);
      });
    },
    settle(caller: Caller, ms: number, bytes: number): Promise<void> | undefined {
      const found = findAccounts(caller);
      return found && store.settle(found.keys, Math.round(ms), bytes);
    },
  };
}
