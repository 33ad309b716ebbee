import fc from "fast-check";
import { expect, test } from "vitest";
import { toOneLine } from "../core/display-text.ts";
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
  const cell = { text: "a long text", paint: (text: string) => `<${text}>` };
  const [line] = formatTable([""], [[cell]], { width: 6, whole: [] });

  expect(line).toBe("<a lon…>");
});

test("puts a name that does not fit on a line of its own, whole", () => {
  const name = `mcp__${"long".repeat(12)}__${"name".repeat(5)}`;
  const rows = [
    ["file__read", "read", "Read a file."],
    [name, "write", "Does a lot that takes many words to tell."],
    ["file__list", "read", ""],
  ];

  expect(formatTable(["action", "effect", "what it does"], rows, { width: 60 })).toEqual([
    "action                            effect  what it does",
    "file__read                        read    Read a file.",
    name,
    "                                  write   Does a lot that t…",
    "file__list                        read",
  ]);
});

test("moves a long cell of a later column to the left, so that it fits", () => {
  const rows = [["12:00:00", "w".repeat(50), "done"]];

  expect(formatTable(["when", "action", "details"], rows, { width: 56, whole: [1] })).toEqual([
    "when      action                                 details",
    "12:00:00",
    `      ${"w".repeat(50)}`,
    "                                                 done",
  ]);
});

test("is never wider than the terminal, except for one name alone", () => {
  const cell = fc.string({ unit: "grapheme", maxLength: 60 });
  fc.assert(
    fc.property(fc.array(fc.tuple(cell, cell, cell)), fc.integer({ min: 30, max: 120 }), (rows, width) => {
      const names = new Set(rows.flatMap(([first, , last]) => [first, last].map(toOneLine)));
      const lines = formatTable(["a", "b", "c"], rows, { width, whole: [0, 2] });
      for (const line of lines) {
        expect(line).not.toMatch(/\p{Cc}/u);
        if (measureWidth(line) > width) expect(names).toContain(line);
      }
      for (const name of names) expect(lines.some((line) => line.includes(name))).toBe(true);
    }),
  );
});
