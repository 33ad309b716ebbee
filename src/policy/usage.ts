/** What was drawn on one account so far. */
export interface Spent {
  readonly calls: number;
  readonly ms: number;
  readonly bytes: number;
}

export type Usage = ReadonlyMap<string, Spent>;

/** Keeps the accounts that budgets are held against. */
export interface UsageStore {
  read(keys: readonly string[]): Promise<Usage>;
  /**
   * Adds one call to every account, or to none when one of them has reached its `maxCalls`; that one is named. Exact
   * however many processes charge at the same time, so that parallel calls cannot slip through together.
   */
  charge(
    entries: readonly { readonly key: string; readonly maxCalls?: number }[],
  ): Promise<{ readonly ok: true } | { readonly ok: false; readonly key: string }>;
  /** Adds what a call has used, once that is known. */
  settle(keys: readonly string[], ms: number, bytes: number): Promise<void>;
}
