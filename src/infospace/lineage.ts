import { AsyncLocalStorage } from "node:async_hooks";

/** The actions that the running call has data from: itself, those it called, and those that made what it read. */
export interface Lineage {
  /** Runs a call. One that is made inside another shares the other's sources, in both directions. */
  track<T>(isInside: boolean, work: () => Promise<T>): Promise<T>;
  add(actions: Iterable<string>): void;
  sources(): readonly string[];
}

export function createLineage(): Lineage {
  const calls = new AsyncLocalStorage<Set<string>>();
  return {
    track: (isInside, work) => (isInside && calls.getStore() !== undefined ? work() : calls.run(new Set(), work)),
    add(actions) {
      const sources = calls.getStore();
      for (const action of actions) sources?.add(action);
    },
    sources: () => [...(calls.getStore() ?? [])],
  };
}
