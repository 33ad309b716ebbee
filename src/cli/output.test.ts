import fc from "fast-check";
import { expect, test } from "vitest";
import { formatTable } from "./output.ts";
import { measureWidth } from "./terminal-text.ts";

test("lines columns up and cuts the last one first", () => {
  const lines = formatTable(
    ["name", "what"],
    [
      ["a", "short"],
      ["longer", "a sentence that goes on and on"],
    ],
    { width: 24 },
  );

  expect(lines).toEqual(["name    what", "a       short", "longer  a sentence that…"]);
});

test("does not cut columns without a width", () => {
  expect(formatTable(["", ""], [["a", "b".repeat(300)]])).toEqual([`a  ${"b".repeat(300)}`]);
});

test("applies colours after cutting", () => {
  const [line] = formatTable([""], [[{ text: "a long text", paint: (text) => `<${text}>` }]], { width: 6 });

  expect(line).toBe("<a lon…>");
});

test("is never wider than the terminal", () => {
  const cell = fc.string({ unit: "grapheme", maxLength: 60 });
  fc.assert(
    fc.property(fc.array(fc.tuple(cell, cell, cell)), fc.integer({ min: 30, max: 120 }), (rows, width) => {
      for (const line of formatTable(["a", "b", "c"], rows, { width })) {
        expect(line).not.toMatch(/\p{Cc}/u);
        expect(measureWidth(line)).toBeLessThanOrEqual(width);
      }
    }),
  );
});
