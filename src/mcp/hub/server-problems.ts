import { Mutex } from "../../core/async.ts";
import { fingerprintServer, type ServerSpec } from "../server-spec.ts";
import type { Hub } from "./hub.ts";

/** What kept a server from being used when it was last tried, by whichever process. */
export interface ServerProblem {
  /** `fingerprintOf` the spec it was tried with: another one may work. */
  readonly fingerprint: string;
  readonly state: "failed" | "needs_login";
  readonly message: string;
}

/** Where problems outlive the process that had them, so that whoever looks later is told. One a server. */
export interface ProblemStore {
  set(server: string, problem: ServerProblem): Promise<void>;
  clear(server: string): Promise<void>;
  all(): Promise<ReadonlyMap<string, ServerProblem>>;
}

/** Writes down what is wrong with servers as it happens; what works again is cleared. */
interface ProblemRecorder {
  /** Takes note of the state that a server is in now. */
  record(spec: ServerSpec): void;
  clear(server: string): Promise<void>;
  /** Waits for what is being written. */
  settled(): Promise<void>;
}

export function createProblemRecorder(store: ProblemStore, hub: Pick<Hub, "status">): ProblemRecorder {
  const last = new Map<string, string>();
  const mutex = new Mutex();

  // Nobody waits for it, and a store that fails is told of by whoever needs what is in it.

  return {
    record(spec) {
      const { state, problem: message = "" } = hub.status(spec.name);
      const isBad = state === "failed" || state === "needs_login";
      if (!isBad && state !== "ready") return;
      const now = isBad ? `${state} ${message}` : state;
      if (last.get(spec.name) === now) return;
      last.set(spec.name, now);
      const problem = isBad ? { fingerprint: fingerprintServer(spec), state, message } : undefined;
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
