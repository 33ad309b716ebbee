import type { Action } from "./action.ts";
import { didYouMean } from "./nearest.ts";

/** Whether `text` matches a glob of `*` and `?`. They match separators, too: `github.*` is everything below it. */
export function matchesGlob(pattern: string, text: string): boolean {
  let p = 0;
  let t = 0;
  let star = -1;
  let resume = 0;
  while (t < text.length) {
    if (p < pattern.length && pattern[p] === "*") {
      star = p++;
      resume = t;
    } else if (p < pattern.length && (pattern[p] === "?" || pattern[p] === text[t])) {
      p++;
      t++;
    } else if (star >= 0) {
      p = star + 1;
      t = ++resume;
    } else return false;
  }
  while (pattern[p] === "*") p++;
  return p === pattern.length;
}

export const isGlob = (pattern: string): boolean => /[*?]/.test(pattern);
export type PatternSet = ReturnType<typeof createPatternSet>;

type NamedAction = Pick<Action, "name" | "category" | "entry">;
type TaggedAction = NamedAction & Pick<Action, "tags">;

const TAG_PREFIX = "tag:";

/**
 * Names, globs and `tag:<tag>` from a configuration. A registered tool also matches by its bare name, without `tool__`.
 */
export function createPatternSet(patterns: readonly string[]) {
  const tags = patterns.flatMap((each) => (each.startsWith(TAG_PREFIX) ? [each.slice(TAG_PREFIX.length)] : []));
  const names = patterns.filter((pattern) => !pattern.startsWith(TAG_PREFIX));
  const exact: ReadonlySet<string> = new Set(names.filter((pattern) => !isGlob(pattern)));
  const globs: readonly string[] = names.filter(isGlob);
  const findNamed = (action: NamedAction) => listSpellings(action).find((spelling) => exact.has(spelling));
  return {
    patterns,
    exact,
    /** Whether the action is listed by name, not only matched by a glob. */
    listsByName: (action: NamedAction): boolean => exact.size > 0 && findNamed(action) !== undefined,
    /** The matching pattern: names before tags, tags before globs. */
    findMatch(action: TaggedAction): string | undefined {
      const named = exact.size === 0 ? undefined : findNamed(action);
      if (named !== undefined) return named;
      const tag = tags.find((each) => action.tags.includes(each));
      if (tag !== undefined) return TAG_PREFIX + tag;
      if (globs.includes("*")) return "*";
      return globs.find((glob) => listSpellings(action).some((spelling) => matchesGlob(glob, spelling)));
    },
  };
}

/** The patterns that fit none of the actions. `near`: the name or tag that may be meant, or nothing. */
export function findIdlePatterns(patterns: readonly string[], actions: readonly TaggedAction[]) {
  return patterns
    .filter((pattern) => {
      const { findMatch } = createPatternSet([pattern]);
      return !actions.some((action) => findMatch(action) !== undefined);
    })
    .map((pattern) => {
      const known = pattern.startsWith(TAG_PREFIX)
        ? actions.flatMap(({ tags }) => tags.map((tag) => TAG_PREFIX + tag))
        : actions.flatMap(listSpellings);
      return { pattern, near: didYouMean(pattern, new Set(known)) };
    });
}

export const listSpellings = (action: NamedAction): readonly string[] =>
  action.category === "tool" ? [action.name, action.entry] : [action.name];
