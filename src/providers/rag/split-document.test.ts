import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { splitDocument } from "./split-document.ts";

const line = fc.oneof(
  fc.constantFrom("", "# One", "## Two", "####### no heading", "```", "~~~~", "   ", "Setext\n=====", "🦑".repeat(700)),
  fc.string({ unit: "grapheme", maxLength: 80 }),
  fc.integer({ min: 0, max: 3_000 }).map((length) => "word ".repeat(length / 5)),
);
const content = fc
  .tuple(fc.array(line, { maxLength: 30 }), fc.constantFrom("\n", "\r\n", "\n\n"))
  .map(([lines, end]) => lines.join(end));

describe("splitting a document", () => {
  test("gives chunks whose text is exactly at their offsets and lines, in order and without overlap", () => {
    fc.assert(
      fc.property(content, fc.boolean(), (text, isMarkdown) => {
        const lines = text.split(/\r?\n|\r/);
        let last = 0;
        for (const { text: part, offset, lines: place } of splitDocument(text, isMarkdown)) {
          expect(text.slice(...offset)).toBe(part);
          expect(part.length).toBeLessThanOrEqual(1_000);
          // No character is cut in two.
          expect(/\p{Surrogate}/u.test(part)).toBe(false);
          expect(offset[0]).toBeGreaterThanOrEqual(last);
          last = offset[1];
          expect(text.slice(0, offset[0]).split(/\r?\n|\r/).length).toBe(place[0]);
          expect(lines.slice(place[0] - 1, place[1]).join("\n")).toContain(part.split(/\r?\n|\r/)[0]);
        }
      }),
    );
  });

  test("loses no text", () => {
    fc.assert(
      fc.property(content, fc.boolean(), (text, isMarkdown) => {
        const words = (all: string) => all.match(/\S+/gu) ?? [];
        const parts = [...splitDocument(text, isMarkdown)].map((chunk) => chunk.text);
        expect(parts.flatMap(words).join("")).toBe(words(text).join(""));
      }),
    );
  });

  // In quadratic time this would take minutes.
  test.each([
    ["a line without a border", "x".repeat(10_000_000)],
    ["a line of spaces", " ".repeat(10_000_000)],
    ["empty lines", "\n".repeat(5_000_000)],
    ["headings", "# a\n".repeat(1_000_000)],
    ["a fence that is not closed", `\`\`\`\n${"# a\n\n".repeat(1_000_000)}`],
  ])("splits %s in linear time", (_name, text) => {
    const { length } = [...splitDocument(text, true)];
    expect(length).toBeGreaterThanOrEqual(Math.floor(text.trim().length / 1_000));
    expect(length).toBeLessThanOrEqual(text.trim().length / 500);
  });

  test("names the headings above, and takes none from code", () => {
    const text = "# A\n\nintro\n\n## B\n\n```\n# not a heading\n```\n\n## C\n\n### D ##\n\nend\n";
    expect([...splitDocument(text, true)].map(({ heading, lines }) => [heading, ...lines])).toEqual([
      ["A", 1, 3],
      ["A > B", 5, 9],
      ["A > C > D", 11, 15],
    ]);
  });
});
