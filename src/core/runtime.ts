/** Time and chance, given from outside so that tests can hold them still. */
export interface Runtime {
  readonly now: () => Date;
  /** Milliseconds from some fixed point, for durations: never goes back. */
  readonly elapsed: () => number;
  readonly newId: () => string;
}
