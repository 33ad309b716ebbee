import type { Action } from "./action.ts";

/** A configured group of the directory. An action goes to the first group that matches it. */
export interface DirectoryGroup {
  readonly name: string;
  readonly title?: string;
  /** When to look here, in a few words. */
  readonly trigger?: string;
  readonly namespaces?: readonly string[];
  readonly tags?: readonly string[];
  readonly actions?: readonly string[];
}

/** A named set of skills, actions and groups of the directory on top of core. Only callers in it see its actions. */
export interface World {
  readonly name: string;
  readonly description?: string;
  readonly groups: readonly DirectoryGroup[];
  has(action: Action): boolean;
}
