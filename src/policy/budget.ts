import type { Caller } from "../core/caller.ts";
import type { Objection } from "./objection.ts";

export interface UsageTotals {
  readonly calls: number;
  readonly ms: number;
  readonly bytes: number;
  /** Tokens of language models, read and written. Absent: none. */
  readonly tokens?: number;
  /** The cost of these tokens. */
  readonly cost?: number;
}

export type ModelUsage = { readonly tokens: number; readonly cost: number };
export type BudgetUsage = ReadonlyMap<string, UsageTotals>;

export interface UsageStore {
  read(keys: readonly string[]): Promise<BudgetUsage>;
  /** Adds one call to every account, or to none and answers the full one's key. Atomic across processes. */
  charge(
    entries: readonly { readonly key: string; readonly maxCalls?: number }[],
  ): Promise<{ readonly ok: true } | { readonly ok: false; readonly key: string }>;
  settle(keys: readonly string[], ms: number, bytes: number): Promise<void>;
  /** Adds the usage of a request to a language model. */
  addModelUsage(keys: readonly string[], usage: ModelUsage): Promise<void>;
  /** Removes accounts of named turns that were not charged since then, except those of unfinished turns. */
  prune(before: Date): Promise<void>;
}

export interface BudgetLimits {
  readonly calls?: number;
  /** Milliseconds of running time. */
  readonly ms?: number;
  readonly bytes?: number;
  /** Tokens of language models. */
  readonly tokens?: number;
  /** The cost of language models, in the currency of their prices. */
  readonly cost?: number;
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

type BudgetKind = keyof UsageTotals;
const callKinds: readonly BudgetKind[] = ["calls", "ms", "bytes"];
const modelKinds: readonly BudgetKind[] = ["tokens", "cost"];

/** For a call. Used up tokens and costs refuse only requests to language models. */
export const checkBudget = (accounts: readonly BudgetAccount[], usage: BudgetUsage): Objection | undefined =>
  findUsedUp(accounts, usage, callKinds);

/** For a request to a language model. */
export const checkModelBudget = (accounts: readonly BudgetAccount[], usage: BudgetUsage): Objection | undefined =>
  findUsedUp(accounts, usage, modelKinds);

function findUsedUp(accounts: readonly BudgetAccount[], usage: BudgetUsage, kinds: readonly BudgetKind[]) {
  for (const { key, scope, limits } of accounts) {
    const spent = usage.get(key);
    for (const kind of kinds) {
      const limit = limits[kind];
      if (limit !== undefined && spent !== undefined && (spent[kind] ?? 0) >= limit)
        return createBudgetObjection(scope, kind, limit);
    }
  }
  return undefined;
}

export function createBudgetObjection(scope: keyof Budgets, kind: BudgetKind, limit: number): Objection {
  const what = {
    calls: "calls",
    ms: "milliseconds of running time",
    bytes: "bytes of results",
    tokens: "tokens of language models",
    cost: "in costs of language models",
  }[kind];
  const reason = `The budget of ${limit} ${what} for this ${scope} is used up.`;
  return { layer: "budget", effect: "deny", rule: `${scope}.${kind}: ${limit}`, reason };
}

/** Without a price the cost of a request is unknown, and the budget would never be used up. */
export function createUnpricedObjection(scope: keyof Budgets, limit: number): Objection {
  const reason = `The language model has no price, so the budget for its costs in this ${scope} cannot be counted.`;
  return { layer: "budget", effect: "deny", rule: `${scope}.cost: ${limit}`, reason };
}
