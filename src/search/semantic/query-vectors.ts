import { withTimeout } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import { clip } from "../../core/json.ts";
import { LruMap } from "../../core/lru-map.ts";
import type { Runtime } from "../../core/runtime.ts";
import { type Embedder, embedderError, toUnitVectors } from "../embedders/embedder.ts";

/** Never rejects. `unavailable` has no text from the embedder, because any caller may read it. */
export type QueryVectors = (
  query: string,
  signal?: AbortSignal,
) => Promise<{ readonly vector: Float32Array } | { readonly unavailable: string }>;

export interface QueryVectorsOptions {
  readonly embedder: Pick<Embedder, "embed">;
  readonly runtime: Pick<Runtime, "elapsed">;
  readonly limitMs: number;
  /** Called with the error, or with `undefined` when the embedder works again. */
  readonly onTrouble: (error: QmError | undefined) => void;
}

const QUERY_LIMIT = 2_000;
const CACHE_SIZE = 256;
const FIRST_REST_MS = 30_000;
const LONGEST_REST_MS = 300_000;

/** After a failure it pauses for half a minute, then twice as long each time: one search waits for a dead endpoint. */
export function createQueryVectors({ embedder, runtime, limitMs, onTrouble }: QueryVectorsOptions): QueryVectors {
  const cache = new LruMap<string, Float32Array>(CACHE_SIZE);
  let rest: { until: number; ms: number } | undefined;
  const tooLate = new QmError("embedder_failed", `the embedder did not answer within ${limitMs} ms`);

  async function embedQuery(text: string, signal: AbortSignal | undefined): Promise<Float32Array> {
    const limits = { ms: limitMs, timeoutError: () => tooLate, signal };
    const read = toUnitVectors(await withTimeout(limits, (inner) => embedder.embed([text], "query", inner)), 1);
    const [vector] = "vectors" in read ? read.vectors : [];
    if (vector !== undefined) return vector;
    throw new QmError("embedder_failed", `the embedder answered with ${"problem" in read ? read.problem : "nothing"}`);
  }

  return async (query, signal) => {
    const text = clip(query, QUERY_LIMIT);
    const known = cache.get(text);
    if (known !== undefined) return { vector: known };
    const now = runtime.elapsed();
    if (rest !== undefined && now < rest.until)
      return { unavailable: "the embedder failed a moment ago and is paused for a while." };
    // Only one query tests whether it works again.
    const before = rest;
    if (before !== undefined) before.until = now + before.ms;
    try {
      const vector = await embedQuery(text, signal);
      rest = undefined;
      onTrouble(undefined);
      cache.set(text, vector);
      return { vector };
    } catch (thrown) {
      if (signal?.aborted) {
        if (before !== undefined) before.until = now;
        return { unavailable: "the search was cancelled." };
      }
      // Relative to the state before this query: queries that fail together count as one failure.
      const ms = before === undefined ? FIRST_REST_MS : Math.min(before.ms * 2, LONGEST_REST_MS);
      rest = { until: runtime.elapsed() + ms, ms };
      onTrouble(embedderError(thrown));
      return { unavailable: thrown === tooLate ? "the embedder did not answer in time." : "the embedder failed." };
    }
  };
}
