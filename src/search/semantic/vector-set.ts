import type { Action } from "../../core/action.ts";
import type { Hit, HitOrder, Searchable } from "../hits.ts";
import type { CatalogContents } from "./action-text.ts";

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
export const USE_RECORD_INTERVAL_MS = 24 * 60 * 60 * 1000;

/** The vectors of a whole catalog: what answers come from. */
export interface VectorSet {
  readonly contents: CatalogContents;
  readonly dimensions: number;
  /**
   * The visible actions nearest to a vector, best first. An action's score is its cosine and depends on no other, so
   * what is hidden leaves no trace.
   */
  rank(vector: Float32Array, view: Searchable, options: RankOptions): readonly Hit[];
}

interface RankOptions {
  readonly limit: number;
  readonly order: HitOrder;
  /** What is further away is no hit. */
  readonly floor: number;
  readonly accepts?: (action: Action) => boolean;
}

/** Reads a catalog's vectors. Undefined when one is missing, or when they are not of one length: never a part. */
export async function readVectorSet(
  store: Pick<VectorStore, "read">,
  model: string,
  contents: CatalogContents,
): Promise<VectorSet | undefined> {
  const rowOf = new Map([...contents.samples.keys()].map((hash, row) => [hash, row]));
  const missing = new Set(rowOf.keys());
  let matrix = new Float32Array(0);
  let dimensions = 0;
  await store.read(model, rowOf.keys(), (hash, vector) => {
    if (dimensions === 0) {
      dimensions = vector.length;
      matrix = new Float32Array(rowOf.size * dimensions);
    }
    const row = rowOf.get(hash);
    if (row === undefined || vector.length !== dimensions) return;
    matrix.set(vector, row * dimensions);
    missing.delete(hash);
  });
  if (missing.size > 0) return undefined;
  const rows = new Map([...contents.hashes].map(([name, hash]) => [name, rowOf.get(hash) ?? 0]));
  return { contents, dimensions, rank: createRanker(matrix, dimensions, rows) };
}

const ABSENT = -1;

function createRanker(
  matrix: Float32Array,
  dimensions: number,
  rows: ReadonlyMap<Action["name"], number>,
): VectorSet["rank"] {
  // Where each action of a catalog has its row, found out once: names are slow to look up a hundred thousand at a time.
  const places = new WeakMap<readonly Action[], Int32Array>();
  const locateRows = (actions: readonly Action[]): Int32Array => {
    let found = places.get(actions);
    if (found === undefined) {
      found = Int32Array.from(actions, ({ name }) => rows.get(name) ?? ABSENT);
      places.set(actions, found);
    }
    return found;
  };

  return (vector, view, { limit, order, floor, accepts = () => true }) => {
    const { actions } = view.snapshot;
    const places = locateRows(actions);
    let best: Hit[] = [];
    let least = floor;
    for (let at = 0; at < places.length; at++) {
      const row = places[at] ?? ABSENT;
      if (row === ABSENT) continue;
      const score = Math.min(dot(matrix, row * dimensions, vector), 1);
      const action = actions[at];
      // The policy is asked last: most actions are not near enough to matter.
      if (!(score >= least) || action === undefined || !view.sees(action) || !accepts(action)) continue;
      best.push({ action, score });
      if (best.length < 2 * limit) continue;
      best = best.sort(order).slice(0, limit);
      least = best.at(-1)?.score ?? floor;
    }
    return best.sort(order).slice(0, limit);
  };
}

/** Four sums at once, or each addition would wait for the one before. */
function dot(matrix: Float32Array, from: number, vector: Float32Array): number {
  const length = vector.length;
  const whole = length - (length % 4);
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  let at = 0;
  for (; at < whole; at += 4) {
    a += (matrix[from + at] as number) * (vector[at] as number);
    b += (matrix[from + at + 1] as number) * (vector[at + 1] as number);
    c += (matrix[from + at + 2] as number) * (vector[at + 2] as number);
    d += (matrix[from + at + 3] as number) * (vector[at + 3] as number);
  }
  for (; at < length; at++) a += (matrix[from + at] as number) * (vector[at] as number);
  return a + b + c + d;
}
