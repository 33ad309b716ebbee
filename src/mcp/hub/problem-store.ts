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
