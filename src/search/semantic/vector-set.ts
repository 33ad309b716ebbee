import type { Action } from "../../core/action.ts";
import type { Hit, HitOptions, Searchable } from "../hits.ts";
import type { CatalogContents } from "./action-text.ts";

export type VectorSetKey = { readonly catalog: string; readonly model: string };

/** Vectors by model and hash of the text. Catalogs and processes share them. */
export interface VectorStore {
  /** When a complete set was last used. Undefined: there is no complete set. */
  lastUse(set: VectorSetKey): Promise<Date | undefined>;
  /** Records that a set is complete and used now. */
  complete(set: VectorSetKey): Promise<void>;
  known(model: string, hashes: Iterable<string>): Promise<ReadonlySet<string>>;
  /** Records that the rows are used now, so that they are not pruned. */
  touch(model: string, hashes: Iterable<string>): Promise<void>;
  write(model: string, rows: ReadonlyMap<string, Float32Array>): Promise<void>;
  read(model: string, hashes: Iterable<string>, take: (hash: string, vector: Float32Array) => void): Promise<void>;
  /** Deletes rows and sets that were not used since then. */
  prune(before: Date): Promise<void>;
  clear(): Promise<{ readonly rows: number }>;
}

/** How often a use is recorded. A search must not write each time. */
export const USE_RECORD_INTERVAL_MS = 24 * 60 * 60 * 1000;

export interface VectorSet {
  readonly contents: CatalogContents;
  readonly dimensions: number;
  /** Best first, by cosine, at least `floor`. Hidden actions do not influence a score. */
  rank(vector: Float32Array, view: Searchable, options: HitOptions & { readonly floor: number }): readonly Hit[];
}

/** Reads the vectors of a catalog. Undefined if one is missing or their lengths differ. */
export async function readVectorSet(store: Pick<VectorStore, "read">, model: string, contents: CatalogContents) {
  const rows = new Map([...contents.samples.keys()].map((hash, row) => [hash, row]));
  const missing = new Set(rows.keys());
  let matrix = new Float32Array(0);
  let dimensions = 0;
  await store.read(model, rows.keys(), (hash, vector) => {
    if (dimensions === 0) {
      dimensions = vector.length;
      matrix = new Float32Array(rows.size * dimensions);
    }
    const row = rows.get(hash);
    if (row === undefined || vector.length !== dimensions) return;
    matrix.set(vector, row * dimensions);
    missing.delete(hash);
  });
  if (missing.size > 0) return undefined;
  const byName = new Map([...contents.hashes].map(([name, hash]) => [name, rows.get(hash) ?? 0]));
  return { contents, dimensions, rank: createRanker(matrix, dimensions, byName) };
}

const ABSENT = -1;

function createRanker(matrix: Float32Array, width: number, rows: ReadonlyMap<string, number>): VectorSet["rank"] {
  // The rows of a catalog are looked up once: a hundred thousand lookups by name are slow.
  const places = new WeakMap<readonly Action[], Int32Array>();
  const locateRows = (actions: readonly Action[]): Int32Array => {
    const found = places.get(actions) ?? Int32Array.from(actions, ({ name }) => rows.get(name) ?? ABSENT);
    places.set(actions, found);
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
      const score = Math.min(dot(matrix, row * width, vector), 1);
      const action = actions[at];
      // The policy is asked last, because most actions are not near enough.
      if (!(score >= least) || action === undefined || !view.sees(action) || !accepts(action)) continue;
      best.push({ action, score });
      if (best.length < 2 * limit) continue;
      best = best.sort(order).slice(0, limit);
      least = best.at(-1)?.score ?? floor;
    }
    return best.sort(order).slice(0, limit);
  };
}

/** Four independent sums, so that the additions can run in parallel. */
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
