import { describe, expect, test } from "vitest";
import { ITEMS, parseFieldPath } from "./field-path.ts";

describe("a path", () => {
  test.each([
    ["email", ["email"]],
    ["owner.phone", ["owner", "phone"]],
    ["items[].price", ["items", ITEMS, "price"]],
    ["[].id", [ITEMS, "id"]],
    ["grid[][]", ["grid", ITEMS, ITEMS]],
    ["First Name", ["First Name"]],
    ["__proto__.constructor", ["__proto__", "constructor"]],
    ['["first.name"].x', ["first.name", "x"]],
    ['a["]\\"["][].b', ["a", ']"[', ITEMS, "b"]],
    ['[""]', [""]],
    ["größe", ["größe"]],
  ])("%s is parsed", (path, steps) => {
    expect(parseFieldPath(path)).toEqual(steps);
  });

  test.each([
    "",
    ".",
    ".a",
    "a.",
    "a..b",
    "a.[]",
    "[]a",
    "a[0]",
    "a[",
    "a]",
    "[a]",
    '["a]',
    '["\\x"]',
    " a",
    "a ",
    "a. b",
    "a\nb",
    'a"b',
    "a".repeat(513),
    7,
    undefined,
  ])("%j is invalid", (path) => {
    expect(parseFieldPath(path)).toBeUndefined();
  });
});
