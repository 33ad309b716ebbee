/** The vectors of one catalog, made by one model. */
export interface VectorSetKey {
  readonly catalog: string;
  readonly model: string;
}

/**
 * Where vectors are kept, for any number of catalogs, models and processes. A vector belongs to a text (by its hash) and
 * a model, so whoever needs the same one shares it, and nobody can take it from another.
 */
export interface VectorStore {
  /** When a set that was complete was last used. Undefined: there is none. */
  lastUse(set: VectorSetKey): Promise<Date | undefined>;
  /** Notes that every row of a set is there, and that it is used now. */
  complete(set: VectorSetKey): Promise<void>;
  /** Which of the rows are there. */
  known(model: string, hashes: Iterable<string>): Promise<ReadonlySet<string>>;
  /** Notes that the rows are used now, so that they are not pruned. */
  touch(model: string, hashes: Iterable<string>): Promise<void>;
  write(model: string, rows: ReadonlyMap<string, Float32Array>): Promise<void>;
  /** Hands over each row that is there. */
  read(model: string, hashes: Iterable<string>, take: (hash: string, vector: Float32Array) => void): Promise<void>;
  /** Forgets the rows and sets that nobody has used since. */
  prune(before: Date): Promise<void>;
  /** Forgets everything, whatever catalog and model it is for; answers how many rows that were. */
  clear(): Promise<{ readonly rows: number }>;
}

/** How exactly it is known when something was last used: a search must not write each time. */
export const USE_NOTED_EVERY_MS = 24 * 60 * 60 * 1000;
