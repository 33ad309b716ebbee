import type { Action } from "../../core/action.ts";
import type { Hit, HitOrder } from "../hit.ts";
import type { Searchable } from "../searchable.ts";
import type { Contents } from "./action-text.ts";
import type { VectorStore } from "./vector-store.ts";

/** The vectors of a whole catalog: what answers come from. */
export interface VectorSet {
  readonly contents: Contents;
  readonly dimensions: number;
  /**
   * The visible actions nearest to a vector, best first. An action's score is its cosine and depends on no other, so
   * what is hidden leaves no trace.
   */
  rank(vector: Float32Array, view: Searchable, options: RankOptions): readonly Hit[];
}

export interface RankOptions {
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
  contents: Contents,
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
  return { contents, dimensions, rank: ranking(matrix, dimensions, rows) };
}

const ABSENT = -1;

function ranking(
  matrix: Float32Array,
  dimensions: number,
  rows: ReadonlyMap<Action["name"], number>,
): VectorSet["rank"] {
  // Where each action of a catalog has its row, found out once: names are slow to look up a hundred thousand at a time.
  const places = new WeakMap<readonly Action[], Int32Array>();
  const placesOf = (actions: readonly Action[]): Int32Array => {
    let found = places.get(actions);
    if (found === undefined) {
      found = Int32Array.from(actions, ({ name }) => rows.get(name) ?? ABSENT);
      places.set(actions, found);
    }
    return found;
  };

  return (vector, view, { limit, order, floor, accepts = () => true }) => {
    const { actions } = view.snapshot;
    const places = placesOf(actions);
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
