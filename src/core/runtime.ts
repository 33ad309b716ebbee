/** Time and chance, given from outside so that tests can hold them still. */
export interface Runtime {
  readonly now: () => Date;
  /** Milliseconds from some fixed point, for durations: never goes back. */
  readonly elapsed: () => number;
  readonly newId: () => string;
}

/** This process, as others can know it, and how to find out whether another on this machine is still there. */
export interface ProcessFacts {
  readonly pid: number;
  readonly host: string;
  isAlive(pid: number): boolean;
}
