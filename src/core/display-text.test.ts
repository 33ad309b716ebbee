import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { listCharacterWarnings, toVisibleJson, toVisibleLine, toVisibleText } from "./display-text.ts";

describe("toVisibleJson", () => {
  test("parses to the same value as JSON", () => {
    fc.assert(
      fc.property(fc.json({ stringUnit: "binary" }), (text) => {
        const value: unknown = JSON.parse(text);
        expect(JSON.parse(toVisibleJson(value, 2))).toEqual(value);
      }),
    );
  });

  test.each([
    ["a bidirectional mark", "a\u202Eb", '"a\\u202eb"'],
    ["a control sequence introducer", "\u009B2J", '"\\u009b2J"'],
    ["a tag character", "\u{E0041}", '"\\udb40\\udc41"'],
    ["a letter that passes for another", "c\u0430t", '"c\\u0430t"'],
    ["a word of such letters alone", "\u0441\u0430\u0442 x", '"\\u0441\\u0430\\u0442 x"'],
    ["such a word beside a strange letter", "\u0441\u0430\u0442 \u0436", '"\\u0441\\u0430\\u0442 \u0436"'],
    [
      "such a word beside a Latin one",
      "sh \u0441\u0430\u0442 \u0434\u0435\u043B\u0430",
      '"sh \\u0441\\u0430\\u0442 \u0434\u0435\u043B\u0430"',
    ],
    ["a Roman numeral", "\u217Cs", '"\\u217cs"'],
    ["a letter of a script that looks like Latin", "\uA4E1S", '"\\ua4e1S"'],
    ["a format character", "a\u{13430}b", '"a\\ud80d\\udc30b"'],
    ["a full-width letter", "\uFF52m", '"\\uff52m"'],
    ["a space that is none", "rm\u00A0-rf", '"rm\\u00a0-rf"'],
  ])("escapes %s", (_what, text, expected) => {
    expect(toVisibleJson(text)).toBe(expected);
  });

  test.each([
    "\n\u043F\u0440\u0438\u0432\u0435\u0442, \u043C\u0438\u0440",
    "\u043A\u0430\u043A \u0434\u0435\u043B\u0430, \u0442\u0430\u043C \u0433\u043E\u0440\u043E\u0434",
    "caf\u00E9 \u2013 d\u00E9j\u00E0 vu",
    "\u4F60\u597D",
    "\u{1F991}",
  ])("leaves ordinary text of other scripts alone: %j", (text) => {
    expect(toVisibleJson(text)).toBe(JSON.stringify(text));
    expect(listCharacterWarnings(text)).toEqual([]);
  });
});

test("toVisibleText keeps line breaks, toVisibleLine escapes them", () => {
  expect(toVisibleText("a\nb\t\u001B")).toBe("a\nb\t\\u{1b}");
  expect(toVisibleLine("a\nb\t\r")).toBe("a\\nb\\t\\u{d}");
});

test("listCharacterWarnings names invisible characters and look-alikes", () => {
  expect(listCharacterWarnings("a\u202E\u200B c\u0430t \uFF52 x\u00A0y")).toEqual([
    "contains invisible or control characters: U+202E, U+200B",
    "contains \uFF52 (U+FF52) that looks like r, a space (U+00A0), Cyrillic \u0430 (U+0430) that looks like a",
  ]);
  expect(listCharacterWarnings("plain text\r\n")).toEqual([]);
});

test("listCharacterWarnings warns about right-to-left text", () => {
  expect(listCharacterWarnings('{"\u05D0": "\u05D1"}')).toEqual([
    "contains right-to-left text: what stands beside it may be shown in another order",
  ]);
});
