import type { Caller } from "../core/caller.ts";
import type { BudgetUsage, UsageStore } from "../policy/budget.ts";
import { type Budgets, createBudgetObjection, listAccounts } from "../policy/budget.ts";
import type { Objection } from "../policy/objection.ts";

/** Counts calls against budgets. Without a budget that concerns the caller it does nothing, at no cost. */
export interface BudgetMeter {
  read(caller: Caller): Promise<BudgetUsage> | undefined;
  /**
   * Takes one call from every budget, or answers the objection of the one that is used up: parallel calls may all have
   * been decided before the first was charged, so the charge has the last word.
   */
  charge(caller: Caller): Promise<Objection | undefined> | undefined;
  settle(caller: Caller, ms: number, bytes: number): Promise<void> | undefined;
}

export function createBudgetMeter(store: UsageStore, budgets: () => Budgets): BudgetMeter {
  const accounts = (caller: Caller) => listAccounts(budgets(), caller);
  return {
    read(caller) {
      const held = accounts(caller);
      return held.length === 0 ? undefined : store.read(held.map(({ key }) => key));
    },
    charge(caller) {
      const held = accounts(caller);
      if (held.length === 0) return undefined;
      const entries = held.map(({ key, limits }) => ({
        key,
        ...(limits.calls === undefined ? {} : { maxCalls: limits.calls }),
      }));
      return store.charge(entries).then((charged) => {
        const full = charged.ok ? undefined : held.find(({ key }) => key === charged.key);
        return full === undefined ? undefined : createBudgetObjection(full.scope, "calls", full.limits.calls ?? 0);
      });
    },
    settle(caller, ms, bytes) {
      const held = accounts(caller);
      return held.length === 0
        ? undefined
        : store.settle(
            held.map(({ key }) => key),
            Math.round(ms),
            bytes,
          );
    },
  };
}
