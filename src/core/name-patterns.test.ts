import fc from "fast-check";
import { expect, test } from "vitest";
import { createPatternSet, matchesGlob } from "./name-patterns.ts";
import { actionName } from "./names.ts";

test.each([
  ["*", "anything__at.all", true],
  ["file__*", "file__read", true],
  ["file__*", "web__fetch", false],
  ["github.*", "github.repos.list", true],
  ["a?c", "abc", true],
  ["a?c", "ac", false],
  ["*__read", "file__read", true],
  ["", "", true],
  ["", "x", false],
])("%j on %j is %j", (pattern, text, expected) => {
  expect(matchesGlob(pattern, text)).toBe(expected);
});

test("agrees with the equivalent regular expression", () => {
  const letters = fc.string({ unit: fc.constantFrom("a", "b", "*", "?"), maxLength: 8 });
  fc.assert(
    fc.property(letters, fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 8 }), (pattern, text) => {
      const oracle = new RegExp(`^${pattern.replace(/\*/g, ".*").replace(/\?/g, ".")}$`);

      expect(matchesGlob(pattern, text)).toBe(oracle.test(text));
    }),
    { numRuns: 3000 },
  );
});

test("matches a hostile pattern quickly", () => {
  expect(matchesGlob("*a".repeat(500), "a".repeat(5000).concat("b"))).toBe(false);
});

test.each([
  [["tag:safe"], "tag:safe"],
  [["tag:other", "file__*"], "file__*"],
  [["file__*", "tag:safe"], "tag:safe"],
  [["tag:safe", "file__read"], "file__read"],
  [["tag:saf", "tag:*"], undefined],
  [["safe"], undefined],
])("the patterns %j match a tagged action by %j", (patterns, expected) => {
  const action = { name: actionName("file", "read"), category: "file", entry: "read", tags: ["safe", "read"] };

  expect(createPatternSet(patterns).findMatch(action)).toBe(expected);
});
