import { yieldToEventLoop } from "../core/async.ts";

/** Work in small steps, with room for other work between them. */
export type Steps<T> = Generator<void, T, void>;

const PACE_MS = 10;

export function runToEnd<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value as T;
  }
}

/** Yields to the event loop between steps. Throws when the signal aborts. */
export async function runInSlices<T>(steps: Steps<T>, signal?: AbortSignal): Promise<T> {
  let started = performance.now();
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value as T;
    if (performance.now() - started < PACE_MS) continue;
    await yieldToEventLoop();
    signal?.throwIfAborted();
    started = performance.now();
  }
}

const RUN = 512;
const MERGED = 2_048;

/** Returns a sorted copy. The sort is stable. */
export function* sortSteps<T>(list: readonly T[], compare: (one: T, other: T) => number): Steps<T[]> {
  let runs: T[][] = [];
  for (let at = 0; at < list.length; at += RUN) {
    runs.push(list.slice(at, at + RUN).sort(compare));
    yield;
  }
  while (runs.length > 1) {
    const merged: T[][] = [];
    for (let at = 0; at < runs.length; at += 2) {
      merged.push(yield* mergeSteps(runs[at] ?? [], runs[at + 1] ?? [], compare));
    }
    runs = merged;
  }
  return runs[0] ?? [];
}

function* mergeSteps<T>(left: readonly T[], right: readonly T[], compare: (one: T, other: T) => number): Steps<T[]> {
  const all: T[] = [];
  let [l, r] = [0, 0];
  while (l < left.length || r < right.length) {
    const isLeft = r >= right.length || (l < left.length && compare(left[l] as T, right[r] as T) <= 0);
    all.push((isLeft ? left[l++] : right[r++]) as T);
    if (all.length % MERGED === 0) yield;
  }
  return all;
}
