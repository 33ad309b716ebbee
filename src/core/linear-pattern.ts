import { RE2JS } from "re2js";
import { spend, type WorkBudget, WorkExceeded } from "./work-budget.ts";

/** The size with counted repetitions written out, checked before compiling. */
const EXPANDED_SIZE_LIMIT = 5_000;
const PROGRAM_LIMIT = 2_000;
/** Class bounds in the whole program. The automaton sorts them all. */
const CLASS_BOUNDS_LIMIT = 200_000;
const TEXT_WORK = 16;
const STATE_WORK = 10;
const STATE_BASE = 50;
const UNANCHORED = 0;
const ANCHOR_BOTH = 2;
export const CASE_INSENSITIVE = RE2JS.CASE_INSENSITIVE;
export const MULTILINE = RE2JS.MULTILINE;
export const DOTALL = RE2JS.DOTALL;

/** A regular expression on RE2. Characters with a new automaton state cost much more, so the work is counted. */
export class LinearPattern {
  readonly #program: RE2JS;
  readonly #stateWork: number;

  private constructor(program: RE2JS) {
    this.#program = program;
    this.#stateWork = STATE_WORK * (program.programSize() + STATE_BASE);
  }

  static compile(source: string, flags = 0): LinearPattern | "syntax" | "too_large" {
    if (measurePattern(source, (flags & CASE_INSENSITIVE) !== 0) > EXPANDED_SIZE_LIMIT) return "too_large";
    let program: RE2JS;
    try {
      program = RE2JS.compile(source, flags);
    } catch {
      return "syntax";
    }
    if (program.programSize() > PROGRAM_LIMIT || countClassBounds(program) > CLASS_BOUNDS_LIMIT) return "too_large";
    // Lookbehind would run on an engine whose work cannot be counted.
    return program.re2().prog.numLb > 0 ? "syntax" : new LinearPattern(program);
  }

  get size(): number {
    return this.#program.programSize();
  }

  test(text: string, budget: WorkBudget): boolean {
    return this.#run(text, budget, UNANCHORED);
  }

  testWhole(text: string, budget: WorkBudget): boolean {
    return this.#run(text, budget, ANCHOR_BOTH);
  }

  #run(text: string, budget: WorkBudget, anchor: number): boolean {
    const { dfa } = this.#program.re2();
    const stateWork = this.#stateWork + dfa.numClasses;
    const length = text.length + TEXT_WORK;
    const worst = length * (1 + stateWork);
    if (worst > budget.left) {
      spend(budget, TEXT_WORK);
      const answer = dfa.match(createCountedText(text, dfa, budget, stateWork) as never, 0, anchor);
      // The automaton ran out of memory, and the engine that takes over would exceed the budget.
      if (answer === null) throw new WorkExceeded("the pattern");
      return answer;
    }
    // The budget covers the worst case, so the library's shortcuts can be used.
    const isIntact = (): boolean => dfa.stateCount === 0 || dfa.startStates.size > 0;
    const before = dfa.stateCount;
    const wasIntact = isIntact();
    const answer = anchor === UNANCHORED ? this.#program.test(text) : this.#program.testExact(text);
    spend(budget, wasIntact && isIntact() ? length / 2 + (dfa.stateCount - before) * stateWork : worst);
    return answer;
  }
}

/** A text as the automaton reads it. It charges for each character and each state made for the one before. */
function createCountedText(text: string, dfa: { readonly stateCount: number }, budget: WorkBudget, stateWork: number) {
  let states = dfa.stateCount;
  return {
    endPos: () => text.length,
    /** The library's flags for the start of a text and of a line. It asks only about position 0. */
    context: () => 0b101,
    /** The code point at a position, shifted left by 3, plus its length in code units. */
    step(position: number): number {
      const { stateCount } = dfa;
      // Fewer than before means that the automaton dropped its states and started again.
      const made = stateCount >= states ? stateCount - states : stateCount;
      states = stateCount;
      spend(budget, 1 + made * stateWork);
      const unit = text.charCodeAt(position);
      if (unit < 0xd800 || unit > 0xdbff) return (unit << 3) | 1;
      const point = text.codePointAt(position) ?? unit;
      return (point << 3) | (point > 0xffff ? 2 : 1);
    },
  };
}

export function isUnicodePattern(source: string): boolean {
  try {
    new RegExp(source, "u");
    return true;
  } catch {
    return false;
  }
}

function countClassBounds(program: RE2JS): number {
  const { prog } = program.re2();
  let bounds = 0;
  for (let at = 0; at < prog.numInst(); at++) bounds += prog.getInst(at).runes?.length ?? 0;
  return bounds;
}

/** The work of compiling a pattern: its expanded size and its character classes. Accepts any text. */
export const measurePattern = (source: string, ignoresCase = false): number =>
  measureExpandedSize(source) + measureClassWork(source, ignoresCase);

// Quoted text, an escape, a character class (a leading bracket is literal), a counted repetition, any character.
const TOKEN =
  /\\Q(.*?)(?:\\E|$)|\\[pPxu]\{[^}]*\}?|\\.?|\[\^?\]?(?:\\.?|[^\]\\])*\]?|\{(?=[^}]{0,14}\})(\d+)(?:,(\d*))?\}|./gs;

/** About how many instructions a pattern has with its counted repetitions written out. Accepts any text. */
export function measureExpandedSize(source: string): number {
  const groups = [{ total: 0, last: 0 }];
  for (const [token, quoted, least, most = ""] of source.matchAll(TOKEN)) {
    let group = groups.at(-1) ?? { total: 0, last: 0 };
    let size = 1;
    if (quoted !== undefined) group.total += quoted.length + 1;
    if (token === "(") {
      groups.push({ total: 0, last: 0 });
      continue;
    }
    if (token === ")") {
      size = 2;
      if (groups.length > 1) {
        groups.pop();
        size += group.total;
        group = groups.at(-1) ?? group;
      }
    }
    if (least === undefined) {
      group.total += size;
      group.last = size;
    } else {
      const times = Math.max(1, Number(least), Number(most));
      group.total += group.last * (times - 1);
      group.last *= times;
    }
  }
  return groups.reduce((sum, { total }) => sum + total, 0);
}

/** A Unicode property stands for hundreds of ranges. */
const PROPERTY = /\\p/gi;
const PROPERTY_WORK = 50;
/** A lookahead, because ranges may overlap: in `[--z]` the first hyphen starts a range. */
const RANGE = /(?=(\\?.)-(?:\\[xu]\{?([0-9a-f]+)|\\?(.)))/gisu;
/** The last letter with another case. Case-insensitive ranges are read character by character up to it. */
const LAST_CASED = 0x1e943;
const CASED_PER_UNIT = 64;

function measureClassWork(source: string, ignoresCase: boolean): number {
  let work = (source.match(PROPERTY)?.length ?? 0) * PROPERTY_WORK;
  if (!ignoresCase && !/\(\?[a-z]*i/i.test(source)) return work;
  for (const [, first = "", hex, literal = ""] of source.matchAll(RANGE)) {
    const low = first.startsWith("\\") ? 0 : (first.codePointAt(0) ?? 0);
    const high = hex === undefined ? (literal.codePointAt(0) ?? 0) : Number.parseInt(hex, 16);
    work += Math.max(0, Math.min(high, LAST_CASED) - low) / CASED_PER_UNIT;
  }
  return work;
}
