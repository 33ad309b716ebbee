import type { Action } from "./action.ts";
import { isGlob, matchesGlob } from "./glob.ts";

/** Names and globs as configurations write them. A registered tool also goes by its bare name, without `tool__`. */
export interface PatternSet {
  /** The pattern that fits, names before globs, or undefined. */
  matching(action: Action): string | undefined;
  /** Whether the action is listed by name rather than caught by a glob. */
  names(action: Action): boolean;
  /** What was written as a name. */
  readonly exact: ReadonlySet<string>;
  readonly globs: readonly string[];
}

export function patternSet(patterns: readonly string[]): PatternSet {
  const exact = new Set(patterns.filter((pattern) => !isGlob(pattern)));
  const globs = patterns.filter(isGlob);
  const all = globs.includes("*");
  const namedAs = (action: Action): string | undefined => spellings(action).find((spelling) => exact.has(spelling));
  return {
    exact,
    globs,
    names: (action) => exact.size > 0 && namedAs(action) !== undefined,
    matching(action) {
      const named = exact.size === 0 ? undefined : namedAs(action);
      if (named !== undefined || globs.length === 0) return named;
      if (all) return "*";
      return globs.find((glob) => spellings(action).some((spelling) => matchesGlob(glob, spelling)));
    },
  };
}

/** What an action is called in configurations. */
export function spellings(action: Pick<Action, "name" | "category" | "entry">): readonly string[] {
  return action.category === "tool" ? [action.name, action.entry] : [action.name];
}
