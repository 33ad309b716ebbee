import type { Caller } from "../core/caller.ts";
import type { Meter } from "../invoke/meter.ts";
import { accountsOf, exceeded } from "../policy/budget.ts";
import type { Policy } from "../policy/policy.ts";
import type { Spent } from "../policy/usage.ts";
import { ranThen } from "./fate.ts";
import type { RecordedCall } from "./recorded.ts";

/** The accounts of budgets as they stood then, moved by what goes differently now. */
export interface Accounts {
  /** For one call. Undefined: nothing was recorded of it. */
  meterFor(recorded: () => RecordedCall | undefined): Meter;
  /** A call that was charged then is not made now. */
  missed(recorded: RecordedCall): void;
}

const NOTHING: Spent = { calls: 0, ms: 0, bytes: 0 };

/**
 * An account that the ledger names stood at what it names, more or less the calls that only one of then and now has
 * charged. One that it does not name, because no budget was held against it then, is counted from the first call on.
 */
export function recordedAccounts(policy: Policy): Accounts {
  const counted = new Map<string, Spent>();
  const shifts = new Map<string, number>();
  const starts = new Map<string, number>();

  function spent(key: string, recorded: RecordedCall | undefined): Spent {
    const then = recorded?.decisions[0]?.usage.get(key);
    if (then === undefined) return counted.get(key) ?? NOTHING;
    const calls = then.calls + (shifts.get(key) ?? 0);
    if (!starts.has(key)) starts.set(key, calls - (counted.get(key)?.calls ?? 0));
    return { ...then, calls };
  }

  /** At the moment of the charge: calls made at the same time had all read the same, and each counts. */
  function charged(key: string, recorded: RecordedCall | undefined): number {
    const { calls } = spent(key, recorded);
    return Math.max(calls, (starts.get(key) ?? 0) + (counted.get(key)?.calls ?? 0));
  }

  function shift(caller: Caller, by: number): void {
    for (const { key } of accountsOf(policy.budgets, caller)) shifts.set(key, (shifts.get(key) ?? 0) + by);
  }

  function count(caller: Caller, more: Spent): void {
    for (const { key } of accountsOf(policy.budgets, caller)) {
      const { calls, ms, bytes } = counted.get(key) ?? NOTHING;
      counted.set(key, { calls: calls + more.calls, ms: ms + more.ms, bytes: bytes + more.bytes });
    }
  }

  return {
    meterFor: (recordedOf) => ({
      read(caller) {
        const held = accountsOf(policy.budgets, caller);
        if (held.length === 0) return undefined;
        const recorded = recordedOf();
        return Promise.resolve(new Map(held.map(({ key }) => [key, spent(key, recorded)])));
      },
      charge(caller) {
        const held = accountsOf(policy.budgets, caller).filter(({ limits }) => limits.calls !== undefined);
        const recorded = recordedOf();
        // Under the same policy the charge goes as it went: of calls at the same time, another may have been first.
        const isSame = recorded?.decisions[0]?.policyVersion === policy.version;
        const full = held.find(({ key, limits }) =>
          isSame ? lostThen(recorded) : charged(key, recorded) >= (limits.calls ?? 0),
        );
        if (full !== undefined) return Promise.resolve(exceeded(full.scope, "calls", full.limits.calls ?? 0));
        count(caller, { ...NOTHING, calls: 1 });
        if (recorded === undefined || !ranThen(recorded)) shift(caller, 1);
        return undefined;
      },
      settle(caller) {
        const { durationMs: ms = 0, bytes = 0 } = recordedOf()?.end ?? {};
        count(caller, { calls: 0, ms: Math.round(ms), bytes });
        return undefined;
      },
    }),
    missed(recorded) {
      if (ranThen(recorded)) shift(recorded.caller, -1);
    },
  };
}

function lostThen({ end, decisions }: RecordedCall): boolean {
  return end?.code === "budget_exceeded" && decisions.at(-1)?.decision !== "deny";
}
