/** Where the values of tokens are kept until a model has spoken. */
export interface AnchorStore {
  /** Keeps values, as JSON, under their tokens: all of them, or none and `false` where a token of them is taken. */
  put(owner: string, values: ReadonlyMap<string, string>): Promise<boolean>;
  /** The values of those tokens that the owner has. */
  read(owner: string, tokens: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** Forgets what was kept before then. */
  prune(before: Date): Promise<void>;
}
