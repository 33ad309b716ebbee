import type { Action } from "../core/action.ts";
import { CASE_INSENSITIVE, LinearPattern, MULTILINE } from "../core/linear-pattern.ts";
import { WORK_LIMIT, WorkExceeded } from "../core/work-budget.ts";
import type { Hit, HitOrder, Searchable } from "./hits.ts";

export interface PatternOptions {
  readonly limit: number;
  readonly order: HitOrder;
  readonly accepts?: (action: Action) => boolean;
}

/** What a pattern found, or what is wrong with it: the rest of a sentence that begins with "the pattern". */
type PatternResult =
  | {
      readonly hits: readonly Hit[];
      /** `false`: the pattern takes so long that not everything visible could be looked at. */
      readonly complete: boolean;
    }
  | { readonly unreadable: string };

export const PATTERN_LIMIT = 256;
/** How much of one action's texts a pattern is held against. */
const TEXT_LIMIT = 2_000;
/** Smaller than elsewhere: a pattern is held against every visible action. */
const PROGRAM_LIMIT = 500;
const SEARCH_WORK = 3 * WORK_LIMIT;

const FLAGS = CASE_INSENSITIVE | MULTILINE;

/**
 * The visible actions whose name, aliases, description or tags hold the pattern, whatever the case. Names are looked at
 * first. The search stops when its work limit is reached and says that it is not complete.
 */
export function searchByPattern(
  pattern: string,
  view: Searchable,
  { limit, order, accepts = () => true }: PatternOptions,
): PatternResult {
  const compiled = compile(pattern);
  if ("unreadable" in compiled) return compiled;
  const { anywhere, atStart } = compiled;
  const budget = { left: SEARCH_WORK };
  let complete = true;

  /** `false` once the work limit is reached. */
  function holds(pattern: LinearPattern, text: string, whole = false): boolean {
    if (!complete) return false;
    try {
      return whole ? pattern.testWhole(text, budget) : pattern.test(text, budget);
    } catch (thrown) {
      if (!(thrown instanceof WorkExceeded)) throw thrown;
      complete = false;
      return false;
    }
  }

  /** The more of the name it is, the better. */
  function scoreName(name: string): number {
    if (!holds(anywhere, name)) return 0;
    if (holds(anywhere, name, true)) return 0.95;
    return holds(atStart, name) ? 0.9 : 0.85;
  }

  const byName = view
    .actions()
    .filter(accepts)
    .map((action) => ({ action, score: scoreName(action.name) }));
  const hits = byName.map(({ action, score }) => ({
    action,
    score: score > 0 ? score : holds(anywhere, joinOtherTexts(action)) ? 0.75 : 0,
  }));
  return {
    hits: hits
      .filter(({ score }) => score > 0)
      .sort(order)
      .slice(0, limit),
    complete,
  };
}

type Compiled = { readonly anywhere: LinearPattern; readonly atStart: LinearPattern } | { readonly unreadable: string };

function compile(pattern: string): Compiled {
  if (pattern.length > PATTERN_LIMIT) return { unreadable: "is too long" };
  const anywhere = LinearPattern.compile(pattern, FLAGS);
  if (anywhere === "syntax") return { unreadable: "cannot be read (RE2 syntax)" };
  if (anywhere === "too_large" || anywhere.size > PROGRAM_LIMIT) return { unreadable: "asks for too much work" };
  let atStart = LinearPattern.compile(`\\A(?:${pattern})`, FLAGS);
  // A quotation that is open at the end of the pattern quotes the parenthesis, too.
  if (atStart === "syntax") atStart = LinearPattern.compile(`\\A(?:${pattern}\\E)`, FLAGS);
  return typeof atStart === "string" ? { unreadable: "asks for too much work" } : { anywhere, atStart };
}

function joinOtherTexts({ aliases, tags, description }: Action): string {
  return [...aliases, ...tags, description].join("\n").slice(0, TEXT_LIMIT);
}

/** For what is called so is meant more than what is only labelled so. */
const LABEL_SCORE = 0.9;

/** The visible actions of which the query is the name, an alias, the whole description or a tag, whatever the case. */
export function searchExact(
  query: string,
  view: Searchable,
  { limit, order, accepts = () => true }: PatternOptions,
): readonly Hit[] {
  const asked = query.trim().toLowerCase();
  if (asked === "") return [];
  const hits: Hit[] = [];
  for (const action of view.actions()) {
    const { name, entry, aliases, tags, description } = action;
    const is = (text: string): boolean => canEqual(text, asked) && text.toLowerCase() === asked;
    const score =
      is(name) || is(entry) || aliases.some(is) ? 1 : tags.some(is) || is(description.trim()) ? LABEL_SCORE : 0;
    if (score > 0 && accepts(action)) hits.push({ action, score });
  }
  return hits.sort(order).slice(0, limit);
}

/** By its length, without the cost of another case: a character in lower case is as long as before, or twice (İ). */
function canEqual({ length }: string, { length: lowered }: string): boolean {
  return length <= lowered && lowered <= 2 * length;
}
