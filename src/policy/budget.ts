import type { Caller } from "../core/caller.ts";
import type { Objection } from "./objection.ts";
import type { Policy } from "./policy.ts";

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

export interface BudgetAccount {
  readonly key: string;
  readonly scope: keyof Budgets;
  readonly limits: BudgetLimits;
  /** Set if it is a budget of this actor, and not of the policy. */
  readonly actor?: string;
}

/** `ids`: for a turn, its session and its own id. With an actor, only what this actor uses counts. */
export function toAccountKey(scope: keyof Budgets, ids: readonly string[], actor?: string): string {
  const all = actor === undefined ? ids : [actor, ...ids];
  return `${scope}:${JSON.stringify(all.length === 1 ? all[0] : all)}`;
}

/**
 * The accounts that a call is charged to, those of the policy before those of its actor. Calls without a turn count to one
 * nameless turn of the session.
 */
export function listAccounts(
  { budgets, actors }: Pick<Policy, "budgets" | "actors">,
  { actor, session, turn = "", tenant }: Caller,
): readonly BudgetAccount[] {
  const ids = { turn: [session, turn], session: [session], tenant: tenant === undefined ? undefined : [tenant] };
  const list = (from: Budgets, own: { readonly actor?: string }) =>
    (["turn", "session", "tenant"] as const).flatMap((scope): readonly BudgetAccount[] => {
      const [limits, id] = [from[scope], ids[scope]];
      return limits === undefined || id === undefined
        ? []
        : [{ key: toAccountKey(scope, id, own.actor), scope, limits, ...own }];
    });
  const limited = actors.get(actor)?.settings.budgets;
  return [...list(budgets, {}), ...(limited === undefined ? [] : list(limited, { actor }))];
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
  for (const account of accounts) {
    const spent = usage.get(account.key);
    for (const kind of kinds) {
      const limit = account.limits[kind];
      if (limit !== undefined && spent !== undefined && (spent[kind] ?? 0) >= limit)
        return createBudgetObjection(account, kind);
    }
  }
  return undefined;
}

export function createBudgetObjection(account: BudgetAccount, kind: BudgetKind): Objection {
  const what = {
    calls: "calls",
    ms: "milliseconds of running time",
    bytes: "bytes of results",
    tokens: "tokens of language models",
    cost: "in costs of language models",
  }[kind];
  const reason = `The budget of ${account.limits[kind]} ${what} for this ${describeScope(account)} is used up.`;
  return { layer: "budget", effect: "deny", rule: describeLimit(account, kind), reason };
}

/** Without a price the cost of a request is unknown, and the budget would never be used up. */
export function createUnpricedObjection(account: BudgetAccount): Objection {
  const scope = describeScope(account);
  const reason = `The language model has no price, so the budget for its costs in this ${scope} cannot be counted.`;
  return { layer: "budget", effect: "deny", rule: describeLimit(account, "cost"), reason };
}

const describeScope = ({ scope, actor }: BudgetAccount): string =>
  actor === undefined ? scope : `${scope} of actor ${actor}`;

/** The key in the configuration. Those of the policy are relative to `policy.budgets`. */
const describeLimit = ({ scope, actor, limits }: BudgetAccount, kind: BudgetKind): string =>
  `${actor === undefined ? "" : `actors.${actor}.budgets.`}${scope}.${kind}: ${limits[kind]}`;
