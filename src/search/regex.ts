import { RE2JS } from "re2js";
import type { Action } from "../core/action.ts";
import type { Hit, HitOrder } from "./hit.ts";
import type { Searchable } from "./searchable.ts";

export interface PatternOptions {
  readonly limit: number;
  readonly order: HitOrder;
  readonly accepts?: (action: Action) => boolean;
}

export const PATTERN_LIMIT = 256;
/** How much of one action, and of all together, a pattern is held against. */
const TEXT_LIMIT = 2_000;
const TOTAL_LIMIT = 20_000_000;

/**
 * The visible actions whose name, aliases, description or tags hold the pattern, whatever the case. The engine is
 * linear in the text, so no pattern can hold the program up. Undefined when it is not a pattern of that engine (RE2: no
 * look-around, no back-references), or longer than `PATTERN_LIMIT`.
 */
export function regexSearch(
  pattern: string,
  view: Searchable,
  { limit, order, accepts = () => true }: PatternOptions,
): readonly Hit[] | undefined {
  const compiled = compile(pattern);
  if (compiled === undefined) return undefined;
  const hits: Hit[] = [];
  let left = TOTAL_LIMIT;
  for (const action of view.actions()) {
    if (left <= 0) break;
    if (!accepts(action)) continue;
    const elsewhere = [...action.aliases, ...action.tags, action.description].join("\n").slice(0, TEXT_LIMIT);
    left -= action.name.length + elsewhere.length;
    const score = scoreOf(compiled, action.name, elsewhere);
    if (score > 0) hits.push({ action, score });
  }
  return hits.sort(order).slice(0, limit);
}

function compile(pattern: string): RE2JS | undefined {
  if (pattern.length > PATTERN_LIMIT) return undefined;
  try {
    return RE2JS.compile(pattern, RE2JS.CASE_INSENSITIVE | RE2JS.MULTILINE);
  } catch {
    return undefined;
  }
}

/** The more of the name it is, the better. */
function scoreOf(pattern: RE2JS, name: string, elsewhere: string): number {
  const matcher = pattern.matcher(name);
  if (matcher.matches()) return 0.95;
  if (matcher.lookingAt()) return 0.9;
  if (pattern.matcher(name).find()) return 0.85;
  return pattern.matcher(elsewhere).find() ? 0.75 : 0;
}
