import { type AST, RegExpParser, visitRegExpAST } from "@eslint-community/regexpp";
import { isUnicodePattern } from "./linear-pattern.ts";
import { spend, type WorkBudget, WorkExceeded } from "./work-budget.ts";

/** Matches at a position and continues with `next` at the end of the match. */
type Matcher = (run: MatchRun, at: number, next: (at: number) => boolean) => boolean;

interface MatchRun {
  readonly text: string;
  readonly budget: WorkBudget;
  readonly captures: (readonly [start: number, end: number] | undefined)[];
}

const STEP_WORK = 12;

/** A pattern with lookaround or backreferences, which RE2 lacks. It backtracks and counts its steps. */
export class BacktrackingPattern {
  readonly #match: Matcher;
  readonly #unicode: boolean;

  constructor(source: string) {
    this.#unicode = isUnicodePattern(source);
    const pattern = new RegExpParser().parsePattern(source, 0, source.length, { unicode: this.#unicode });
    this.#match = compilePattern(pattern, this.#unicode ? "u" : "");
  }

  test(text: string, budget: WorkBudget): boolean {
    try {
      for (let start = 0; start <= text.length; start++) {
        if (this.#unicode && isInsidePair(text, start)) continue;
        const run: MatchRun = { text, budget, captures: [] };
        if (this.#match(run, start, () => true)) return true;
      }
      return false;
    } catch (thrown) {
      throw thrown instanceof RangeError ? new WorkExceeded("the pattern") : thrown;
    }
  }
}

const SURROGATE_PAIR = /^[\uD800-\uDBFF][\uDC00-\uDFFF]$/;
const isInsidePair = (text: string, at: number): boolean => at > 0 && SURROGATE_PAIR.test(text.slice(at - 1, at + 1));

function compilePattern(pattern: AST.Pattern, flags: string): Matcher {
  const groups = collectGroups(pattern);
  return compileAlternatives(pattern.alternatives, false);

  function compileAlternatives(alternatives: readonly AST.Alternative[], backward: boolean): Matcher {
    const matchers = alternatives.map(({ elements }) => compileSequence(elements, backward));
    if (matchers.length === 1 && matchers[0] !== undefined) return matchers[0];
    return (run, at, next) => matchers.some((match) => match(run, at, next));
  }

  function compileSequence(elements: readonly AST.Element[], backward: boolean): Matcher {
    const matchers = elements.map((element) => compileElement(element, backward));
    if (backward) matchers.reverse();
    return matchers.reduceRight<Matcher>(
      (rest, first) => (run, at, next) => {
        spend(run.budget, STEP_WORK);
        return first(run, at, (after) => rest(run, after, next));
      },
      (_run, at, next) => next(at),
    );
  }

  function compileElement(element: AST.Element, backward: boolean): Matcher {
    if (element.type === "Group") return compileAlternatives(element.alternatives, backward);
    if (element.type === "CapturingGroup") return compileCapture(element, backward);
    if (element.type === "Assertion") return compileAssertion(element);
    if (element.type === "Quantifier") return compileQuantifier(element, backward);
    if (element.type === "Backreference") return compileBackreference(element, backward);
    const one = compileCharacter(element);
    return (run, at, next) => {
      const after = one(run, at, backward);
      return after !== undefined && next(after);
    };
  }

  function compileCapture(group: AST.CapturingGroup, backward: boolean): Matcher {
    const number = groups.indexOf(group);
    const match = compileAlternatives(group.alternatives, backward);
    return (run, at, next) =>
      match(run, at, (after) => {
        const before = run.captures[number];
        run.captures[number] = backward ? [after, at] : [at, after];
        if (next(after)) return true;
        run.captures[number] = before;
        return false;
      });
  }

  function compileAssertion(assertion: AST.Assertion): Matcher {
    if (assertion.kind === "lookahead" || assertion.kind === "lookbehind") {
      const match = compileAlternatives(assertion.alternatives, assertion.kind === "lookbehind");
      return (run, at, next) => {
        const before = [...run.captures];
        const found = match(run, at, () => true);
        // Groups captured in a lookahead stay captured behind it.
        if (found && !assertion.negate && next(at)) return true;
        run.captures.splice(0, run.captures.length, ...before);
        return !found && assertion.negate && next(at);
      };
    }
    if (assertion.kind === "word") {
      const isWord = (character = "") => /\w/.test(character);
      return ({ text }, at, next) => (isWord(text[at - 1]) !== isWord(text[at])) !== assertion.negate && next(at);
    }
    const isStart = assertion.kind === "start";
    return ({ text }, at, next) => at === (isStart ? 0 : text.length) && next(at);
  }

  function compileBackreference({ resolved }: AST.Backreference, backward: boolean): Matcher {
    const numbers = [resolved].flat().map((group) => groups.indexOf(group));
    return (run, at, next) => {
      const captured = numbers.map((number) => run.captures[number]).find((capture) => capture !== undefined);
      if (captured === undefined) return next(at);
      const same = run.text.slice(...captured);
      spend(run.budget, same.length);
      const start = backward ? at - same.length : at;
      if (start < 0 || !run.text.startsWith(same, start)) return false;
      return next(backward ? start : start + same.length);
    };
  }

  function compileQuantifier(quantifier: AST.Quantifier, backward: boolean): Matcher {
    const { element, min, max, greedy } = quantifier;
    if (element.type === "Character" || element.type === "CharacterClass" || element.type === "CharacterSet") {
      return repeatCharacter(compileCharacter(element), quantifier, backward);
    }
    const match = compileElement(element, backward);
    const inner = collectGroups(element).map((group) => groups.indexOf(group));
    const repeat = (run: MatchRun, at: number, count: number, next: (at: number) => boolean): boolean => {
      spend(run.budget, STEP_WORK);
      const again = (): boolean => {
        if (count >= max) return false;
        const before = inner.map((number) => run.captures[number]);
        for (const number of inner) run.captures[number] = undefined;
        // An iteration that matches the empty text would repeat for ever.
        if (match(run, at, (after) => (after !== at || count < min) && repeat(run, after, count + 1, next)))
          return true;
        for (const [index, number] of inner.entries()) run.captures[number] = before[index];
        return false;
      };
      if (count < min) return again();
      return greedy ? again() || next(at) : next(at) || again();
    };
    return (run, at, next) => repeat(run, at, 0, next);
  }

  function compileCharacter(
    element: AST.Character | AST.CharacterClass | AST.CharacterSet | AST.ExpressionCharacterClass,
  ): CharacterMatcher {
    // The built-in engine cannot backtrack over a single character.
    const single = new RegExp(`^${element.raw}$`, flags);
    const fits = new Map<string, boolean>();
    return ({ text, budget }, at, backward) => {
      spend(budget, STEP_WORK);
      const character = flags === "u" ? readCodePoint(text, at, backward) : text[backward ? at - 1 : at];
      if (character === undefined) return undefined;
      let isFit = fits.get(character);
      if (isFit === undefined) {
        isFit = single.test(character);
        if (fits.size < 1000) fits.set(character, isFit);
      }
      return isFit ? at + (backward ? -character.length : character.length) : undefined;
    };
  }
}

/** Returns the position behind the character if it matches. */
type CharacterMatcher = (run: MatchRun, at: number, backward: boolean) => number | undefined;

/** Matches a repeated character without recursion, by listing the positions it can end at. */
function repeatCharacter(
  one: CharacterMatcher,
  { min, max, greedy }: Pick<AST.Quantifier, "min" | "max" | "greedy">,
  backward: boolean,
): Matcher {
  return (run, at, next) => {
    const ends = [at];
    const take = (): boolean => {
      const end = ends.length <= max ? one(run, ends[ends.length - 1] ?? at, backward) : undefined;
      if (end !== undefined) ends.push(end);
      return end !== undefined;
    };
    while (ends.length <= min) if (!take()) return false;
    if (greedy) {
      while (take());
      for (let count = ends.length - 1; count >= min; count--) if (next(ends[count] ?? at)) return true;
      return false;
    }
    for (let count = min; ; count++) {
      if (next(ends[count] ?? at)) return true;
      if (!take()) return false;
    }
  };
}

function readCodePoint(text: string, at: number, backward: boolean): string | undefined {
  if (!backward) {
    const point = text.codePointAt(at);
    return point === undefined ? undefined : String.fromCodePoint(point);
  }
  const pair = text.slice(Math.max(0, at - 2), at);
  return SURROGATE_PAIR.test(pair) ? pair : text[at - 1];
}

function collectGroups(node: AST.Node): readonly AST.CapturingGroup[] {
  const groups: AST.CapturingGroup[] = [];
  visitRegExpAST(node, { onCapturingGroupEnter: (group) => void groups.push(group) });
  return groups;
}
