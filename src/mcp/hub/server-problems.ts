import { Mutex } from "../../core/async.ts";
import { fingerprintServer, type ServerSpec } from "../server-spec.ts";
import type { Hub } from "./hub.ts";

/** Why a server could not be used when a process last tried it. */
export interface ServerProblem {
  /** `fingerprintServer` of the spec that was tried. Another spec may work. */
  readonly fingerprint: string;
  readonly state: "failed" | "needs_login";
  readonly message: string;
}

/** Keeps one problem per server for other processes and later ones. */
export interface ProblemStore {
  set(server: string, problem: ServerProblem): Promise<void>;
  clear(server: string): Promise<void>;
  all(): Promise<ReadonlyMap<string, ServerProblem>>;
}

/** Stores the problems of servers as they happen, and clears them when a server works again. */
export function createProblemRecorder(store: ProblemStore, hub: Pick<Hub, "status">) {
  const last = new Map<string, string>();
  const mutex = new Mutex();
  return {
    /** Records the current state of a server in the background. Errors of the store are ignored. */
    record(spec: ServerSpec): void {
      const { name } = spec;
      const { state, problem: message = "" } = hub.status(name);
      const isBad = state === "failed" || state === "needs_login";
      if (!isBad && state !== "ready") return;
      const current = isBad ? `${state} ${message}` : state;
      if (last.get(name) === current) return;
      last.set(name, current);
      const problem = isBad ? { fingerprint: fingerprintServer(spec), state, message } : undefined;
      void mutex
        .run(() => (problem === undefined ? store.clear(name) : store.set(name, problem)))
        .catch(() => undefined);
    },
    clear(server: string): Promise<void> {
      last.delete(server);
      return mutex.run(() => store.clear(server));
    },
    settled: (): Promise<void> => mutex.run(() => {}),
  };
}
