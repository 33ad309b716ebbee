import type { Caller } from "../core/caller.ts";
import { omitUndefined } from "../core/json.ts";
import {
  type BudgetUsage,
  checkModelBudget,
  createBudgetObjection,
  createUnpricedObjection,
  listAccounts,
  type ModelUsage,
  type UsageStore,
} from "../policy/budget.ts";
import type { Objection } from "../policy/objection.ts";
import type { Policy } from "../policy/policy.ts";

export type BudgetMeter = ReturnType<typeof createBudgetMeter>;

/** Counts calls against budgets. Does nothing, at no cost, for a caller without a budget. */
export function createBudgetMeter(store: UsageStore, getPolicy: () => Pick<Policy, "budgets" | "actors">) {
  const findAccounts = (caller: Caller) => {
    const { budgets, actors } = getPolicy();
    // Asked several times in each call, and most policies have no budgets.
    if (Object.keys(budgets).length === 0 && actors.get(caller.actor)?.settings.budgets === undefined) return undefined;
    const accounts = listAccounts({ budgets, actors }, caller);
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
        return full && createBudgetObjection(full, "calls");
      });
    },
    /** Answers the objection to a request to a language model. Parallel requests may all pass before one is counted. */
    async checkModel(caller: Caller, hasPrice: boolean): Promise<Objection | undefined> {
      const found = findAccounts(caller);
      if (found === undefined) return undefined;
      const unpriced = hasPrice ? undefined : found.accounts.find(({ limits }) => limits.cost !== undefined);
      return unpriced === undefined
        ? checkModelBudget(found.accounts, await store.read(found.keys))
        : createUnpricedObjection(unpriced);
    },
    async addModelUsage(caller: Caller, usage: ModelUsage): Promise<void> {
      const found = findAccounts(caller);
      if (found !== undefined) await store.addModelUsage(found.keys, usage);
    },
    settle(caller: Caller, ms: number, bytes: number): Promise<void> | undefined {
      const found = findAccounts(caller);
      return found && store.settle(found.keys, Math.round(ms), bytes);
    },
  };
}
