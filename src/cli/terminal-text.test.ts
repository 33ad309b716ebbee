import fc from "fast-check";
import { expect, test } from "vitest";
import { escapeUnsafe, quoteShellWord, toOneLine } from "../core/display-text.ts";
import { fitToWidth, measureWidth, safeJson } from "./terminal-text.ts";

const HOSTILE = "a\u001B[31mb\u202Ec\u0007d\u2028e";

test("escapes everything that a terminal acts on", () => {
  expect(toOneLine(`${HOSTILE}\r\nf`)).toBe("a\\u{1b}[31mb\\u{202e}c\\u{7}d e f");
  expect(escapeUnsafe("a\n\tb\r")).toBe("a\n\tb\\u{d}");
});

test("does not escape scripts and emoji", () => {
  const text = "naïve 日本語 می‌خواهم 👩‍👩‍👧";

  expect(toOneLine(text)).toBe(text);
});

test("writes equal JSON for a terminal", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(JSON.parse(safeJson(value, 2))).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
  expect(safeJson(HOSTILE)).toBe('"a\\u001b[31mb\\u202ec\\u0007d\\u2028e"');
  expect(JSON.parse(safeJson("\u{E0041}\u0085"))).toBe("\u{E0041}\u0085");
  expect(safeJson("\u{E0041}")).not.toContain("\u{E0041}");
});

test("cuts to the available width", () => {
  expect(fitToWidth("日本語", 5)).toBe("日本…");
  expect(fitToWidth("short", 5)).toBe("short");
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), fc.integer({ min: 1, max: 40 }), (text, width) => {
      expect(measureWidth(fitToWidth(text, width))).toBeLessThanOrEqual(width);
    }),
  );
});

test("quotes for a shell", () => {
  expect(quoteShellWord("file__read")).toBe("file__read");
  expect(quoteShellWord("it's")).toBe(`'it'\\''s'`);
  expect(quoteShellWord("")).toBe("''");
});
