import type { Caller } from "../core/caller.ts";
import type { BudgetMeter } from "../invoke/budget-meter.ts";
import {
  checkModelBudget,
  createBudgetObjection,
  listAccounts,
  type ModelUsage,
  type UsageTotals,
} from "../policy/budget.ts";
import type { Objection } from "../policy/objection.ts";
import type { Policy } from "../policy/policy.ts";
import { hasRun, type RecordedCall } from "./recorded-call.ts";

/** The recorded budget accounts, adjusted by what goes differently now. */
export interface BudgetAccounts {
  /** The meter of one call. `getRecorded` returns undefined for a call that is not recorded. */
  createMeter(getRecorded: () => RecordedCall | undefined): BudgetMeter;
  /** Charges the recorded requests to language models. Answers the objection to the first that would be refused now. */
  chargeModel(recorded: RecordedCall): Objection | undefined;
  /** For a recorded call that was charged and is not made now. */
  refund(recorded: RecordedCall): void;
}

const NOTHING: UsageTotals = { calls: 0, ms: 0, bytes: 0 };

/**
 * An account starts at its recorded usage, plus or minus the calls that only the replay or only the recording charged. An
 * account without recorded usage, because it had no budget then, is counted from the first call on.
 */
export function createBudgetAccounts(policy: Policy): BudgetAccounts {
  const counted = new Map<string, UsageTotals>();
  const shifts = new Map<string, number>();
  const starts = new Map<string, number>();

  function readSpent(key: string, recorded: RecordedCall | undefined): UsageTotals {
    const usage = recorded?.decisions[0]?.usage.get(key);
    if (usage === undefined) return counted.get(key) ?? NOTHING;
    const calls = usage.calls + (shifts.get(key) ?? 0);
    if (!starts.has(key)) starts.set(key, calls - (counted.get(key)?.calls ?? 0));
    return { ...usage, calls };
  }

  /** At the time of the charge: parallel calls had all read the same usage, and each counts. */
  function countCharged(key: string, recorded: RecordedCall | undefined): number {
    const { calls } = readSpent(key, recorded);
    return Math.max(calls, (starts.get(key) ?? 0) + (counted.get(key)?.calls ?? 0));
  }

  function shift(caller: Caller, by: number): void {
    for (const { key } of listAccounts(policy, caller)) shifts.set(key, (shifts.get(key) ?? 0) + by);
  }

  function count(caller: Caller, more: UsageTotals): void {
    for (const { key } of listAccounts(policy, caller)) {
      const { calls, ms, bytes, ...model } = counted.get(key) ?? NOTHING;
      const sum = { calls: calls + more.calls, ms: ms + more.ms, bytes: bytes + more.bytes };
      counted.set(key, { ...sum, ...addModelUsage(model, more) });
    }
  }

  return {
    createMeter: (getRecorded) => ({
      read(caller) {
        const accounts = listAccounts(policy, caller);
        if (accounts.length === 0) return undefined;
        const recorded = getRecorded();
        return Promise.resolve(new Map(accounts.map(({ key }) => [key, readSpent(key, recorded)])));
      },
      charge(caller) {
        const accounts = listAccounts(policy, caller).filter(({ limits }) => limits.calls !== undefined);
        const recorded = getRecorded();
        // Under the same policy the charge is repeated: of parallel calls, another may have come first.
        const isSame = recorded?.decisions[0]?.policyVersion === policy.version;
        const full = accounts.find(({ key, limits }) =>
          isSame ? hasExceededBudget(recorded) : countCharged(key, recorded) >= (limits.calls ?? 0),
        );
        if (full !== undefined) return Promise.resolve(createBudgetObjection(full, "calls"));
        count(caller, { ...NOTHING, calls: 1 });
        if (recorded === undefined || !hasRun(recorded)) shift(caller, 1);
        return undefined;
      },
      settle(caller) {
        const { durationMs: ms = 0, bytes = 0 } = getRecorded()?.end ?? {};
        count(caller, { calls: 0, ms: Math.round(ms), bytes });
        return undefined;
      },
      // A replay runs no handler, so it sends no request to a model. `chargeModel` charges the recorded ones.
      checkModel: async () => undefined,
      addModelUsage: async () => {},
    }),
    chargeModel(recorded) {
      const { caller, decisions, modelUsages = [] } = recorded;
      const accounts = listAccounts(policy, caller);
      // Under the same policy the recorded refusals are repeated.
      const isSame = decisions[0]?.policyVersion === policy.version;
      let used: ModelUsage = { tokens: 0, cost: 0 };
      let refused: Objection | undefined;
      for (const usage of modelUsages) {
        const spent = accounts.map(({ key }) => {
          const before = readSpent(key, recorded);
          return [key, { ...before, ...addModelUsage(before, used) }] as const;
        });
        refused = isSame ? undefined : checkModelBudget(accounts, new Map(spent));
        if (refused !== undefined) break;
        used = addModelUsage(used, usage);
      }
      count(caller, { ...NOTHING, ...used });
      return refused;
    },
    refund(recorded) {
      if (hasRun(recorded)) shift(recorded.caller, -1);
    },
  };
}

const addModelUsage = (one: Partial<ModelUsage>, other: Partial<ModelUsage>): ModelUsage => ({
  tokens: (one.tokens ?? 0) + (other.tokens ?? 0),
  cost: (one.cost ?? 0) + (other.cost ?? 0),
});

function hasExceededBudget(recorded: RecordedCall): boolean {
  const { end, decisions } = recorded;
  return end?.code === "budget_exceeded" && decisions.at(-1)?.decision !== "deny" && !hasRun(recorded);
}
