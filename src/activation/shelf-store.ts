/** Where the names that were put aside for a run or a session outlive the process. A shelf only ever grows. */
export interface ShelfStore {
  /** The names on a shelf, in the order in which they were first put there. */
  read(shelf: string): Promise<readonly string[]>;
  /**
   * Puts names behind those that are there; one that is there already keeps its place. Answers the new ones: of several
   * processes that put the same name, exactly one is answered it.
   */
  put(shelf: string, names: readonly string[]): Promise<readonly string[]>;
}
