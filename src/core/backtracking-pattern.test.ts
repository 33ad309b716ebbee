import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { BacktrackingPattern } from "./backtracking-pattern.ts";
import { WorkExceeded } from "./work-budget.ts";

const test1 = (source: string, text: string, left = 4_000_000) => new BacktrackingPattern(source).test(text, { left });

describe("a backtracking pattern", () => {
  const email =
    "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$";

  test.each([
    [email, "ann@example.com", true],
    [email, ".ann@example.com", false],
    [email, "a..b@example.com", false],
    ["^(?=.*\\d)(?=.*[a-z]).{4,}$", "abc1", true],
    ["^(?=.*\\d)(?=.*[a-z]).{4,}$", "abcd", false],
    ["(?<=\\$)\\d+", "costs $40", true],
    ["(?<!\\$)\\b\\d+", "costs $40", false],
    ["^(a|b)\\1$", "aa", true],
    ["^(a|b)\\1$", "ab", false],
    ["(?<year>\\d{4})-\\k<year>", "2026-2026", true],
    ["^(?:(a)|b)*\\1$", "ab", true],
    ["^.$", "😀", true],
    ["\\u{1F600}", "😀", true],
    ["^\\-x(?=y)", "-xy", true],
  ])("%s on %s is %s", (source, text, expected) => {
    expect(test1(source, text)).toBe(expected);
  });

  test("agrees with the built-in engine", () => {
    const atom = fc.constantFrom(
      "a",
      "b",
      ".",
      "[ab]",
      "[^a]",
      "\\w",
      "\\b",
      "^",
      "$",
      "\\1",
      "(?=a)",
      "(?!b)",
      "(?<=a)",
      "(?<!b)",
    );
    const { pattern } = fc.letrec<{ pattern: string; part: string }>((tie) => ({
      part: fc.oneof(
        { depthSize: "small" },
        atom,
        fc
          .tuple(atom, fc.constantFrom("*", "+", "?", "{2}", "{1,2}", "*?", "+?", "??"))
          .map(([one, times]) => (/^(\^|\$|\\b|\(\?)/.test(one) ? one : one + times)),
        fc
          .tuple(tie("pattern"), fc.constantFrom("", "*", "+", "?", "{2}", "*?"))
          .map(([inner, times]) => `(${inner})${times}`),
        tie("pattern").map((inner) => `(?:${inner})`),
        tie("pattern").map((inner) => `(?=${inner})`),
        tie("pattern").map((inner) => `(?<=${inner})`),
      ),
      pattern: fc.oneof(
        fc.array(tie("part"), { minLength: 1, maxLength: 3 }).map((parts) => parts.join("")),
        fc.tuple(tie("part"), tie("part")).map((parts) => parts.join("|")),
      ),
    }));
    const text = fc.string({ unit: fc.constantFrom("a", "b", "c", "😀"), maxLength: 8 });

    fc.assert(
      fc.property(pattern, text, (source, value) => {
        let native: RegExp;
        try {
          native = new RegExp(source, "uy");
        } catch {
          return; // such as \1 without a group
        }
        // A random pattern may need more work than the limit that the other tests use.
        expect(test1(source, value, 400_000_000)).toBe(matchesSomewhere(native, value));
      }),
      { numRuns: 5_000 },
    );
  });

  test.each([
    ["^(?=(a+)+$)(a+)+$", `${"a".repeat(40)}b`],
    ["(?!x)(\\w+\\s?)*$", `${"word ".repeat(500)}!`],
    ["(?=(a)).*\\1.*\\1.*\\1.*\\1b", "a".repeat(2_000)],
    ["(?!b)(?:a|a)*c", "a".repeat(50_000)],
  ])("%s stops at its work limit", (source, text) => {
    expect(() => test1(source, text)).toThrow(WorkExceeded);
  });

  test("throws for an invalid pattern", () => {
    expect(() => new BacktrackingPattern("(")).toThrow(SyntaxError);
  });
});

/** Tries every code point. Without `y`, V8 also matches between the halves of a surrogate pair, which `u` forbids. */
function matchesSomewhere(sticky: RegExp, text: string): boolean {
  const starts = [0];
  for (const character of text) starts.push((starts.at(-1) ?? 0) + character.length);
  return starts.some((start) => {
    sticky.lastIndex = start;
    return sticky.test(text);
  });
}
