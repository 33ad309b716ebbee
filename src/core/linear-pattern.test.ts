import fc from "fast-check";
import { RE2JS } from "re2js";
import { describe, expect, test } from "vitest";
import { LinearPattern, measureExpandedSize } from "./linear-pattern.ts";
import { WORK_LIMIT, WorkExceeded } from "./work-budget.ts";

function compile(source: string, flags?: number): LinearPattern {
  const pattern = LinearPattern.compile(source, flags);
  if (typeof pattern === "string") throw new Error(pattern);
  return pattern;
}

/** Pseudo-random, and the same each time. */
const letters = Array.from({ length: 100_000 }, (_, at) => (((at * 2_654_435_761) >>> 16) % 3 ? "a" : "b")).join("");

describe("a linear pattern", () => {
  test("gives the same answer with and without counting each character", () => {
    const source = fc.constantFrom(
      "a+b",
      "^ab?$",
      "\\bab\\b",
      "(?i)A.C",
      "a|bc|",
      "[^a]😀",
      "(?m)^b$",
      "a{2,3}c",
      "\\pL",
    );
    const text = fc.string({ unit: fc.constantFrom("a", "b", "c", "😀", "\n", " ", "\ud83d"), maxLength: 12 });
    fc.assert(
      fc.property(source, text, (pattern, value) => {
        const expected = RE2JS.compile(pattern);
        for (const left of [1_000_000_000, 5_000]) {
          // With a small budget the worst case does not fit, and every character is counted.
          expect(compile(pattern).test(value, { left })).toBe(expected.test(value));
          expect(compile(pattern).testWhole(value, { left })).toBe(expected.testExact(value));
        }
      }),
      { numRuns: 500 },
    );
  });

  test.each(["a.{200}z", "a.{450}z", "(a.{0,40}b.{0,40}){3}z", "(a|b\\pL).{30}\\pN", "[ab]{300}c|[ab]{301}d"])(
    "%s stops at its work limit",
    (source) => {
      const pattern = compile(source);
      const budget = { left: WORK_LIMIT };

      expect(() => pattern.test(letters, budget)).toThrow(WorkExceeded);
      expect(budget.left).toBeLessThan(0);
      // The interrupted automaton stays usable.
      expect(pattern.test("short", { left: WORK_LIMIT })).toBe(false);
    },
  );

  test("charges little for a long text with few states", () => {
    const budget = { left: WORK_LIMIT };

    expect(compile("needle|haystack").test(`${letters}needle`, budget)).toBe(true);
    expect(budget.left).toBeGreaterThan(WORK_LIMIT / 2);
  });

  test.each([
    ["(", "syntax"],
    ["(?=a)b", "syntax"],
    ["(?<=a)b", "syntax"],
    ["(a)\\1", "syntax"],
    [Array.from({ length: 70 }, (_, at) => `[ab]{${920 + at}}c`).join("|"), "too_large"],
    ["(((a{50}){50}){50})", "too_large"],
    ["\\pL{900}\\pN{900}\\pZ{900}", "too_large"],
  ])("rejects %.40s as %s", (source, problem) => {
    expect(LinearPattern.compile(source)).toBe(problem);
  });

  test.each([
    ["abc", 3],
    ["a{10}", 10],
    ["(ab){10}c{2,5}", 45],
    ["[a-z]{3}\\d{2}", 5],
    ["\\p{Letter}{4}", 4],
    ["[]x]{2}", 2],
    ["((a{10}){10}){10}", 1220],
    ["a{x}", 4],
    [")(", 2],
    ["[", 1],
    ["\\", 1],
  ])("the expanded size of %s is %d", (source, size) => {
    expect(measureExpandedSize(source)).toBe(size);
  });

  test("measures any text", () => {
    const text = fc.string({ unit: fc.constantFrom(..."()[]{}\\|*+?0,9^a"), maxLength: 40 });
    fc.assert(fc.property(text, (source) => measureExpandedSize(source) >= 0));
  });
});
