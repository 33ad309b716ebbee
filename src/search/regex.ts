import { RE2JS } from "re2js";
import type { Action } from "../core/action.ts";
import type { Hit, HitOrder } from "./hit.ts";
import type { Searchable } from "./searchable.ts";

export interface PatternOptions {
  readonly limit: number;
  readonly order: HitOrder;
  readonly accepts?: (action: Action) => boolean;
}

/** What a pattern found, or what is wrong with it: the rest of a sentence that begins with "the pattern". */
export type PatternFound =
  | {
      readonly hits: readonly Hit[];
      /** `false`: the pattern takes so long that not everything visible could be looked at. */
      readonly complete: boolean;
    }
  | { readonly unreadable: string };

export const PATTERN_LIMIT = 256;
/** How much of one action's texts a pattern is held against. */
const TEXT_LIMIT = 2_000;
/** A counted repetition is spelt out in the program: what a pattern may come to before, and after, it is compiled. */
const SPELT_OUT_LIMIT = 30_000;
const PROGRAM_LIMIT = 500;

/** What one search may take, in units of about ten nanoseconds. */
const WORK = 15_000_000;
/** Each text costs something, however short. */
const TEXT_WORK = 16;
/** To make a state of the automaton, for each instruction of the program; some are made even by a small one. */
const STATE_WORK = 10;
const STATE_BASE = 50;

const FLAGS = RE2JS.CASE_INSENSITIVE | RE2JS.MULTILINE;
const TOO_MUCH = { unreadable: "asks for too much work" };

/**
 * The visible actions whose name, aliases, description or tags hold the pattern, whatever the case. Names are looked at
 * first. The engine is linear in the text, but a character can cost as much as the pattern is large, so what it does is
 * counted, and a search ends when that is enough.
 */
export function regexSearch(
  pattern: string,
  view: Searchable,
  { limit, order, accepts = () => true }: PatternOptions,
): PatternFound {
  const compiled = compile(pattern);
  if ("unreadable" in compiled) return compiled;
  const budget = { left: WORK, isSpent: false };
  const anywhere = metered(compiled.program, budget);
  const atStart = metered(compiled.anchored, budget);

  /** The more of the name it is, the better. */
  function scoreOf(name: string): number {
    if (!anywhere.holds(name)) return 0;
    if (anywhere.isWhole(name)) return 0.95;
    return atStart.holds(name) ? 0.9 : 0.85;
  }

  const byName = view
    .actions()
    .filter(accepts)
    .map((action) => ({ action, score: scoreOf(action.name) }));
  const hits = byName.map(({ action, score }) => ({
    action,
    score: score > 0 ? score : anywhere.holds(otherTexts(action)) ? 0.75 : 0,
  }));
  return {
    hits: hits
      .filter(({ score }) => score > 0)
      .sort(order)
      .slice(0, limit),
    complete: !budget.isSpent,
  };
}

type Compiled = { readonly program: RE2JS; readonly anchored: RE2JS } | { readonly unreadable: string };

function compile(pattern: string): Compiled {
  if (pattern.length > PATTERN_LIMIT) return { unreadable: "is too long" };
  if (pattern.length * repetitions(pattern) > SPELT_OUT_LIMIT) return TOO_MUCH;
  try {
    const program = RE2JS.compile(pattern, FLAGS);
    return program.programSize() > PROGRAM_LIMIT ? TOO_MUCH : { program, anchored: anchored(pattern) };
  } catch {
    return { unreadable: "cannot be read (RE2 syntax)" };
  }
}

function anchored(pattern: string): RE2JS {
  try {
    return RE2JS.compile(`\\A(?:${pattern})`, FLAGS);
  } catch {
    // What is quoted up to the end of the pattern quotes the parenthesis, too.
    return RE2JS.compile(`\\A(?:${pattern}\\E)`, FLAGS);
  }
}

/** How often something can be repeated at most, were all counts inside each other. The engine takes no more than 1000. */
function repetitions(pattern: string): number {
  let product = 1;
  for (const [, least, most] of pattern.matchAll(/\{(\d+)(?:,(\d*))?\}/g)) {
    product *= Math.max(1, Number(least), Number(most ?? 0));
  }
  return Math.min(product, 1_000);
}

function otherTexts({ aliases, tags, description }: Action): string {
  return [...aliases, ...tags, description].join("\n").slice(0, TEXT_LIMIT);
}

/** Each answers `false` without a look when that could take more than what is left. */
interface Matching {
  holds(text: string): boolean;
  isWhole(text: string): boolean;
}

/**
 * Counts what the engine does. It makes an automaton from the program as it goes: a character is nearly free where the
 * state it leads to is there, and dear where it has to be made, which a pattern can bring about at each.
 */
function metered(program: RE2JS, budget: { left: number; isSpent: boolean }): Matching {
  const { dfa } = program.re2();
  const stateWork = STATE_WORK * (program.programSize() + STATE_BASE) + dfa.numClasses;

  /** Without its first state it has thrown all of them away, because they were too many, and made who knows how many. */
  const isWhole = (): boolean => dfa.stateCount === 0 || dfa.startStates.size > 0;

  function look(text: string, run: () => boolean): boolean {
    const characters = text.length + TEXT_WORK;
    const atWorst = characters * (1 + stateWork);
    if (atWorst > budget.left) {
      budget.isSpent = true;
      return false;
    }
    const before = dfa.stateCount;
    const wasWhole = isWhole();
    const answer = run();
    budget.left -= wasWhole && isWhole() ? characters + (dfa.stateCount - before) * stateWork : atWorst;
    return answer;
  }

  return {
    holds: (text) => look(text, () => program.test(text)),
    isWhole: (text) => look(text, () => program.testExact(text)),
  };
}
