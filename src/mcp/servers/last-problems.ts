import { Mutex } from "../../core/async.ts";
import type { Hub } from "../hub/hub.ts";
import type { ProblemStore } from "../hub/problem-store.ts";
import { fingerprintOf, type ServerSpec } from "../server-spec.ts";

/** Writes down what is wrong with servers as it happens; what works again is cleared. */
export interface ProblemKeeper {
  /** Takes note of the state that a server is in now. */
  look(spec: ServerSpec): void;
  clear(server: string): Promise<void>;
  /** Waits for what is being written. */
  settled(): Promise<void>;
}

export function keepProblems(store: ProblemStore, hub: Pick<Hub, "status">): ProblemKeeper {
  const last = new Map<string, string>();
  const mutex = new Mutex();

  // Nobody waits for it, and a store that fails is told of by whoever needs what is in it.

  return {
    look(spec) {
      const { state, problem: message = "" } = hub.status(spec.name);
      const isBad = state === "failed" || state === "needs_login";
      if (!isBad && state !== "ready") return;
      const now = isBad ? `${state} ${message}` : state;
      if (last.get(spec.name) === now) return;
      last.set(spec.name, now);
      const problem = isBad ? { fingerprint: fingerprintOf(spec), state, message } : undefined;
      void mutex
        .run(() => (problem === undefined ? store.clear(spec.name) : store.set(spec.name, problem)))
        .catch(() => undefined);
    },
    clear(server) {
      last.delete(server);
      return mutex.run(() => store.clear(server));
    },
    settled: () => mutex.run(() => {}),
  };
}
