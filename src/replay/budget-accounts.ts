import type { Caller } from "../core/caller.ts";
import type { BudgetMeter } from "../invoke/budget-meter.ts";
import type { UsageTotals } from "../policy/budget.ts";
import { createBudgetObjection, listAccounts } from "../policy/budget.ts";
import type { Policy } from "../policy/policy.ts";
import type { RecordedCall } from "./recorded-call.ts";
import { hasRun } from "./recorded-call.ts";

/** The accounts of budgets as they stood then, moved by what goes differently now. */
export interface BudgetAccounts {
  /** For one call. Undefined: nothing was recorded of it. */
  createMeter(recorded: () => RecordedCall | undefined): BudgetMeter;
  /** A call that was charged then is not made now. */
  refund(recorded: RecordedCall): void;
}

const NOTHING: UsageTotals = { calls: 0, ms: 0, bytes: 0 };

/**
 * An account that the ledger names stood at what it names, more or less the calls that only one of then and now has
 * charged. One that it does not name, because no budget was held against it then, is counted from the first call on.
 */
export function createBudgetAccounts(policy: Policy): BudgetAccounts {
  const counted = new Map<string, UsageTotals>();
  const shifts = new Map<string, number>();
  const starts = new Map<string, number>();

  function readSpent(key: string, recorded: RecordedCall | undefined): UsageTotals {
    const then = recorded?.decisions[0]?.usage.get(key);
    if (then === undefined) return counted.get(key) ?? NOTHING;
    const calls = then.calls + (shifts.get(key) ?? 0);
    if (!starts.has(key)) starts.set(key, calls - (counted.get(key)?.calls ?? 0));
    return { ...then, calls };
  }

  /** At the moment of the charge: calls made at the same time had all read the same, and each counts. */
  function countCharged(key: string, recorded: RecordedCall | undefined): number {
    const { calls } = readSpent(key, recorded);
    return Math.max(calls, (starts.get(key) ?? 0) + (counted.get(key)?.calls ?? 0));
  }

  function shift(caller: Caller, by: number): void {
    for (const { key } of listAccounts(policy.budgets, caller)) shifts.set(key, (shifts.get(key) ?? 0) + by);
  }

  function count(caller: Caller, more: UsageTotals): void {
    for (const { key } of listAccounts(policy.budgets, caller)) {
      const { calls, ms, bytes } = counted.get(key) ?? NOTHING;
      counted.set(key, { calls: calls + more.calls, ms: ms + more.ms, bytes: bytes + more.bytes });
    }
  }

  return {
    createMeter: (recordedOf) => ({
      read(caller) {
        const held = listAccounts(policy.budgets, caller);
        if (held.length === 0) return undefined;
        const recorded = recordedOf();
        return Promise.resolve(new Map(held.map(({ key }) => [key, readSpent(key, recorded)])));
      },
      charge(caller) {
        const held = listAccounts(policy.budgets, caller).filter(({ limits }) => limits.calls !== undefined);
        const recorded = recordedOf();
        // Under the same policy the charge goes as it went: of calls at the same time, another may have been first.
        const isSame = recorded?.decisions[0]?.policyVersion === policy.version;
        const full = held.find(({ key, limits }) =>
          isSame ? hasExceededBudget(recorded) : countCharged(key, recorded) >= (limits.calls ?? 0),
        );
        if (full !== undefined)
          return Promise.resolve(createBudgetObjection(full.scope, "calls", full.limits.calls ?? 0));
        count(caller, { ...NOTHING, calls: 1 });
        if (recorded === undefined || !hasRun(recorded)) shift(caller, 1);
        return undefined;
      },
      settle(caller) {
        const { durationMs: ms = 0, bytes = 0 } = recordedOf()?.end ?? {};
        count(caller, { calls: 0, ms: Math.round(ms), bytes });
        return undefined;
      },
    }),
    refund(recorded) {
      if (hasRun(recorded)) shift(recorded.caller, -1);
    },
  };
}

function hasExceededBudget({ end, decisions }: RecordedCall): boolean {
  return end?.code === "budget_exceeded" && decisions.at(-1)?.decision !== "deny";
}
