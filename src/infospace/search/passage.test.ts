import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json } from "../../core/json.ts";
import { extractExcerpt } from "../primitives/search.ts";
import { extractNoteText, PASSAGE_LENGTH, splitPassages, toLabels } from "./passage.ts";

describe("readable text", () => {
  test("is the text, or keys and values", () => {
    expect(extractNoteText("as it is", 100)).toEqual({ text: "as it is", whole: true });
    expect(extractNoteText({ name: "Ada", born: 1815, tags: ["a", "b"], home: { city: "London" } }, 200).text).toBe(
      ["name: Ada", "born: 1815", "tags:", " - a", " - b", "home:", " city: London"].join("\n"),
    );
    expect(
      extractNoteText(
        [
          { id: 1, ok: true },
          { id: 2, ok: null },
        ],
        200,
      ).text,
    ).toBe([" id: 1", " ok: true", " id: 2", " ok: null"].join("\n"));
  });

  test("reports that it was cut", () => {
    expect(extractNoteText("x".repeat(11), 10)).toEqual({ text: "x".repeat(10), whole: false });
    expect(
      extractNoteText(
        Array.from({ length: 100 }, (_, at) => `line ${at}`),
        50,
      ),
    ).toMatchObject({ whole: false });
    expect(extractNoteText(nested(5_000), 1_000)).toMatchObject({ whole: false });
  });

  test("takes hostile keys as keys", () => {
    const content: Json = JSON.parse('{"__proto__": {"polluted": true}, "constructor": "x"}');

    expect(extractNoteText(content, 200).text).toBe("__proto__:\n polluted: true\nconstructor: x");
    expect(toLabels(content as { readonly [key: string]: Json })).toEqual([
      "__proto__ polluted: true",
      "constructor x",
    ]);
  });
});

describe("passages", () => {
  test("cover the text, overlap, and have a maximum length", () => {
    const text = fc.string({ unit: fc.constantFrom("a", "bc", " ", "\n", "\n\n", ". ", "🦀", "字", "\uD83D") });
    const long = fc.array(text, { minLength: 0, maxLength: 400 }).map((parts) => parts.join("word "));
    fc.assert(
      fc.property(long, (whole) => {
        const passages = [...splitPassages(whole)];

        let at = 0;
        for (const passage of passages) {
          expect(passage.length).toBeLessThanOrEqual(PASSAGE_LENGTH);
          const found = whole.indexOf(passage, Math.max(0, at - PASSAGE_LENGTH));
          expect(found).toBeGreaterThanOrEqual(0);
          expect(found).toBeLessThanOrEqual(at);
          at = Math.max(at, found + passage.length);
        }
        expect(at).toBe(whole.length);
      }),
      { numRuns: 50 },
    );
  });

  test("end at paragraphs, and never inside a character", () => {
    const paragraph = `${"word ".repeat(150).trim()}\n\n`;
    const [first = "", second = ""] = splitPassages(paragraph.repeat(3));
    expect(first).toBe(paragraph);
    expect(second.startsWith("word")).toBe(true);

    for (const passage of splitPassages(`a${"🦀".repeat(3_000)}`)) {
      expect(passage).not.toMatch(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/);
    }
  });

  test("cut a text without word borders", () => {
    expect([...splitPassages("x".repeat(100_000))].length).toBeLessThan(100);
    expect([...splitPassages("")]).toEqual([""]);
  });
});

describe("an excerpt", () => {
  test("shows where most of the words are", () => {
    const passage = `${"early invoice text ".repeat(20)}then the overdue invoice of Berlin ${"and more to come ".repeat(20)}`;

    const shown = extractExcerpt(passage, "overdue invoice Berlin", 120);

    expect(shown).toContain("overdue invoice of Berlin");
    expect(shown).toMatch(/^….*…$/);
  });

  test("never exceeds the limit", () => {
    const word = fc.string({ unit: fc.constantFrom("a", "b ", "🦀", "字", "\uDC00", "\n") });
    fc.assert(
      fc.property(word, word, fc.integer({ min: 3, max: 60 }), (passage, query, limit) => {
        const whole = passage.repeat(20);
        const shown = extractExcerpt(whole, query, limit);

        expect(shown.length).toBeLessThanOrEqual(Math.max(limit, 3));
        expect(whole).toContain(shown.replace(/^…|…$/g, ""));
      }),
    );
    expect(extractExcerpt("short", "x", 10)).toBe("short");
  });
});

function nested(depth: number): Json {
  let value: Json = "core";
  for (let at = 0; at < depth; at++) value = [value];
  return value;
}
