import type { Action } from "../core/action.ts";
import { CASE_INSENSITIVE, LinearPattern, MULTILINE } from "../core/linear-pattern.ts";
import { WORK_LIMIT, WorkExceeded } from "../core/work-budget.ts";
import type { Hit, HitOptions, Searchable } from "./hits.ts";

/** `complete`: the work limit was not reached. `unreadable` completes a sentence that begins with "the pattern". */
type PatternResult = { readonly hits: readonly Hit[]; readonly complete: boolean } | { readonly unreadable: string };

type PatternPair = { readonly anywhere: LinearPattern; readonly atStart: LinearPattern };

export const PATTERN_LIMIT = 256;
const TEXT_LIMIT = 2_000;
/** Smaller than elsewhere, because every visible action is searched. */
const PROGRAM_LIMIT = 500;
const SEARCH_WORK = 3 * WORK_LIMIT;
const FLAGS = CASE_INSENSITIVE | MULTILINE;

/** Finds the visible actions whose name, aliases, description or tags match the pattern, ignoring case. */
export function searchByPattern(pattern: string, view: Searchable, options: HitOptions): PatternResult {
  const { limit, order, accepts = () => true } = options;
  const compiled = compile(pattern);
  if ("unreadable" in compiled) return compiled;
  const { anywhere, atStart } = compiled;
  const budget = { left: SEARCH_WORK };
  let complete = true;

  /** Returns false once the work limit is reached. */
  function matches(pattern: LinearPattern, text: string, whole = false): boolean {
    if (!complete) return false;
    try {
      return whole ? pattern.testWhole(text, budget) : pattern.test(text, budget);
    } catch (thrown) {
      if (!(thrown instanceof WorkExceeded)) throw thrown;
      complete = false;
      return false;
    }
  }

  function scoreName(name: string): number {
    if (!matches(anywhere, name)) return 0;
    if (matches(anywhere, name, true)) return 0.95;
    return matches(atStart, name) ? 0.9 : 0.85;
  }

  const actions = view.actions().filter(accepts);
  // All names before other texts, so that the work limit does not cost a name.
  const byName = actions.map((action) => ({ action, score: scoreName(action.name) }));
  const hits = byName
    .map(({ action, score }) => ({ action, score: score || (matches(anywhere, joinOtherTexts(action)) ? 0.75 : 0) }))
    .filter(({ score }) => score > 0);
  return { hits: hits.sort(order).slice(0, limit), complete };
}

function compile(pattern: string): PatternPair | { readonly unreadable: string } {
  if (pattern.length > PATTERN_LIMIT) return { unreadable: "is too long" };
  const anywhere = LinearPattern.compile(pattern, FLAGS);
  if (anywhere === "syntax") return { unreadable: "cannot be read (RE2 syntax)" };
  if (anywhere === "too_large" || anywhere.size > PROGRAM_LIMIT) return { unreadable: "asks for too much work" };
  let atStart = LinearPattern.compile(`\\A(?:${pattern})`, FLAGS);
  // An open `\Q` quotation at the end of the pattern would quote the parenthesis, too.
  if (atStart === "syntax") atStart = LinearPattern.compile(`\\A(?:${pattern}\\E)`, FLAGS);
  return typeof atStart === "string" ? { unreadable: "asks for too much work" } : { anywhere, atStart };
}

const joinOtherTexts = ({ aliases, tags, description }: Action): string =>
  [...aliases, ...tags, description].join("\n").slice(0, TEXT_LIMIT);
const LABEL_SCORE = 0.9;

/** Finds the visible actions whose name, alias, tag or whole description is the query, ignoring case. */
export function searchExact(query: string, view: Searchable, { limit, order, accepts = () => true }: HitOptions) {
  const wanted = query.trim().toLowerCase();
  if (wanted === "") return [];
  const hits: Hit[] = [];
  for (const action of view.actions()) {
    const { name, entry, aliases, tags, description } = action;
    const is = (text: string): boolean => canEqual(text, wanted) && text.toLowerCase() === wanted;
    const score =
      is(name) || is(entry) || aliases.some(is) ? 1 : tags.some(is) || is(description.trim()) ? LABEL_SCORE : 0;
    if (score > 0 && accepts(action)) hits.push({ action, score });
  }
  return hits.sort(order).slice(0, limit);
}

/** Cheap check before lower-casing: a lower-case character is as long as before, or twice as long (İ). */
const canEqual = ({ length }: string, { length: lowered }: string): boolean =>
  length <= lowered && lowered <= 2 * length;
