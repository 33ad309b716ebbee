import type { Catalog } from "./catalog/catalog.ts";

const START_LIMIT_MS = 10_000;

/** Each is closed, whatever the ones before it did; then the first fault is thrown. */
export async function inTurn(closing: readonly (() => Promise<void>)[]): Promise<void> {
  const faults: unknown[] = [];
  for (const close of closing) {
    try {
      await close();
    } catch (thrown) {
      faults.push(thrown);
    }
  }
  if (faults.length > 0) throw faults[0];
}

/** A provider that never answers must not keep everything else from starting; its actions come when they come. */
export async function settledSoon(catalog: Catalog, onProblem: (problem: string) => void): Promise<void> {
  const late = AbortSignal.timeout(START_LIMIT_MS);
  await Promise.race([catalog.settled(), new Promise((resolve) => late.addEventListener("abort", resolve))]);
  if (late.aborted) onProblem(`not every provider has listed its actions within ${START_LIMIT_MS / 1000} seconds`);
}
