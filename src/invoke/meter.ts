import type { Caller } from "../core/caller.ts";
import { accountsOf, type Budgets, exceeded } from "../policy/budget.ts";
import type { Usage, UsageStore } from "../policy/usage.ts";
import type { Objection } from "../policy/verdict.ts";

/** Counts calls against budgets. Without a budget that concerns the caller it does nothing, at no cost. */
export interface Meter {
  read(caller: Caller): Promise<Usage> | undefined;
  /**
   * Takes one call from every budget, or answers the objection of the one that is used up: parallel calls may all have
   * been decided before the first was charged, so the charge has the last word.
   */
  charge(caller: Caller): Promise<Objection | undefined> | undefined;
  settle(caller: Caller, ms: number, bytes: number): Promise<void> | undefined;
}

export function createMeter(store: UsageStore, budgets: () => Budgets): Meter {
  const accounts = (caller: Caller) => accountsOf(budgets(), caller);
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
        return full === undefined ? undefined : exceeded(full.scope, "calls", full.limits.calls ?? 0);
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
