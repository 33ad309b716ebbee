import { describe, expect, test } from "vitest";
import { diffLines, diffWords } from "./text-diff.ts";

test("keeps both texts in a word diff", () => {
  const texts = ["", "a b c", "b c a", "a  b", "x a b c y", "a b c a b c", "one, two; three", "öäü \u{1f600} ß"];
  for (const a of texts) {
    for (const b of texts) {
      const stretches = diffWords(a, b);
      const without = (left: string) => stretches.filter(({ kind }) => kind !== left).map(({ text }) => text);
      expect(without("added").join("")).toBe(a);
      expect(without("removed").join("")).toBe(b);
    }
  }
});

describe("a line diff", () => {
  const lines = (count: number) => Array.from({ length: count }, (_, at) => `line ${at}`);

  test("marks removed and added lines and shows three lines around them", () => {
    const before = lines(20);
    const after = before.with(10, "new").toSpliced(11, 1);

    expect(diffLines(before.join("\n"), after.join("\n"))).toEqual([
      "  … 7 unchanged lines",
      "  line 7",
      "  line 8",
      "  line 9",
      "- line 10",
      "- line 11",
      "+ new",
      "  line 12",
      "  line 13",
      "  line 14",
      "  … 5 unchanged lines",
    ]);
  });

  test("shows every changed line of texts that are too long to compare", () => {
    const after = lines(3_000).map((line) => `${line}!`);

    const shown = diffLines(lines(3_000).join("\n"), after.join("\n"));

    expect(shown).toHaveLength(6_000);
    expect(shown.at(-1)).toBe("+ line 2999!");
  });

  test("shows that a line break at the end was added", () => {
    expect(diffLines("a", "a\n")).toEqual(["  a", "+ "]);
    expect(diffLines("a", "a")).toEqual(["  … 1 unchanged line"]);
  });
});
