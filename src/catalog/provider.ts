import type { Action } from "../core/action.ts";

/**
 * A source of actions: it owns one category and never sees policy, the ledger or other providers.
 * Adding one to the system is one file and one line where the providers are listed.
 */
export interface Provider {
  readonly category: string;
  /** What one can do here, for a system prompt: the capability in a sentence, never an action's name. */
  readonly capability: string;
  /**
   * What is on offer now. Called at start and again after `watch` calls back; must not have side effects.
   * May answer at once or later; while a later answer is under way the earlier list stays in force.
   */
  list(): readonly Action[] | Promise<readonly Action[]>;
  /** Calls back when `list` would answer differently, until the returned function is called. Absent: never changes. */
  watch?(onChange: () => void): () => void;
  close?(): Promise<void>;
}
