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
/** How much of one action's texts a pattern is held against. */
const TEXT_LIMIT = 2_000;
/** What one search may take, at a step for each character and each instruction of the pattern: about a second. */
const STEPS = 50_000_000;

/**
 * The visible actions whose name, aliases, description or tags hold the pattern, whatever the case. The engine is
 * linear in the text, and how much text it gets depends on the pattern, so none can hold the program up: where that is
 * not enough for all, names go first. Undefined when it is not a pattern of that engine (RE2: no look-around, no
 * back-references), or longer than `PATTERN_LIMIT`.
 */
export function regexSearch(
  pattern: string,
  view: Searchable,
  { limit, order, accepts = () => true }: PatternOptions,
): readonly Hit[] | undefined {
  const compiled = compile(pattern);
  if (compiled === undefined) return undefined;
  let left = STEPS / compiled.programSize();
  const held = (text: string, score: (pattern: RE2JS, text: string) => number): number => {
    left -= text.length;
    return left < 0 ? 0 : score(compiled, text);
  };
  const wanted = view.actions().filter(accepts);
  const byName = wanted.map((action) => ({ action, score: held(action.name, scoreOfName) }));
  const hits = byName.map(({ action, score }) => ({
    action,
    score: score > 0 ? score : held(otherTexts(action), scoreElsewhere),
  }));
  return hits
    .filter(({ score }) => score > 0)
    .sort(order)
    .slice(0, limit);
}

function otherTexts({ aliases, tags, description }: Action): string {
  return [...aliases, ...tags, description].join("\n").slice(0, TEXT_LIMIT);
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
function scoreOfName(pattern: RE2JS, name: string): number {
  const matcher = pattern.matcher(name);
  if (matcher.matches()) return 0.95;
  if (matcher.lookingAt()) return 0.9;
  return pattern.matcher(name).find() ? 0.85 : 0;
}

function scoreElsewhere(pattern: RE2JS, text: string): number {
  return pattern.matcher(text).find() ? 0.75 : 0;
}
