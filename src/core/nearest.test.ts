import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { editDistance, findNearest } from "./nearest.ts";

describe("editDistance", () => {
  test.each([
    ["", "", 0],
    ["a", "", 1],
    ["denied", "denied", 0],
    ["denyed", "denied", 1],
    ["dneied", "denied", 1],
    ["dnieed", "denied", 2],
    ["kitten", "sitting", 3],
    ["flaw", "lawn", 2],
    ["ab", "ba", 1],
    ["abcd", "badc", 2],
  ])("of %s and %s is %i", (a, b, distance) => {
    expect(editDistance(a, b, 10)).toBe(distance);
    expect(editDistance(b, a, 10)).toBe(distance);
  });

  test("agrees with the textbook recursion, and stops at the bound", () => {
    const word = fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 6 });

    fc.assert(
      fc.property(word, word, fc.nat(6), (a, b, bound) => {
        expect(editDistance(a, b, bound)).toBe(Math.min(textbook(a, b), bound + 1));
      }),
    );
  });
});

describe("findNearest", () => {
  test.each([
    ["denyed", ["allowed", "denied"], "denied"],
    ["TIMEOUT_MS", ["timeout_ms"], "timeout_ms"],
    ["timeoutMs", ["timeout_ms", "queue"], "timeout_ms"],
    ["xyz", ["allowed", "denied"], undefined],
    ["a", [], undefined],
    ["", ["a"], "a"],
    ["bat", ["cat", "hat"], "cat"],
    ["hat", ["cat", "hat"], "hat"],
  ])("to %j in %j is %j", (text, candidates, expected) => {
    expect(findNearest(text, candidates)).toBe(expected);
  });

  test("respects the given distance", () => {
    expect(findNearest("denyed", ["denied"], 0)).toBeUndefined();
    expect(findNearest("dxxxxd", ["denied"], 4)).toBe("denied");
  });

  test("skips long texts quickly", () => {
    const long = "x".repeat(1_000_000);

    expect(findNearest(long, [long, `${long}y`, "x"], Number.MAX_SAFE_INTEGER)).toBeUndefined();
    expect(
      findNearest(
        "x",
        Array.from({ length: 1000 }, () => long),
      ),
    ).toBeUndefined();
  });
});

function textbook(a: string, b: string): number {
  if (a === "" || b === "") return a.length + b.length;
  const replaced = textbook(a.slice(1), b.slice(1)) + (a[0] === b[0] ? 0 : 1);
  const edited = Math.min(replaced, textbook(a.slice(1), b) + 1, textbook(a, b.slice(1)) + 1);
  const swapped = a.length > 1 && b.length > 1 && a[0] === b[1] && a[1] === b[0];
  return swapped ? Math.min(edited, textbook(a.slice(2), b.slice(2)) + 1) : edited;
}
