/** A process that was started for a server, for whoever comes after a crash. */
export interface StartedProcess {
  readonly server: string;
  readonly pid: number;
  /** When the system started it, as the system says it: a pid alone may be another's by now. */
  readonly startedAt: string;
  readonly ownerPid: number;
  readonly host: string;
}

export interface ProcessStore {
  add(started: StartedProcess): Promise<void>;
  remove(started: Pick<StartedProcess, "pid" | "host" | "startedAt">): Promise<void>;
  all(): Promise<readonly StartedProcess[]>;
}
