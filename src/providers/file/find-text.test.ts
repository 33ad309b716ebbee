import fc from "fast-check";
import { expect, test } from "vitest";
import { findClosestLine, findOccurrences } from "./edit.ts";

test("finds all occurrences, also overlapping ones", () => {
  const word = (maxLength: number, minLength = 0) =>
    fc.string({ unit: fc.constantFrom("a", "b"), minLength, maxLength });

  fc.assert(
    fc.property(word(30), word(5, 1), (text, needle) => {
      const places = Array.from(text, (_, at) => at).filter((at) => text.startsWith(needle, at));
      expect([...findOccurrences(text, needle)]).toEqual(places);
    }),
  );
});

test("takes linear time on texts that make indexOf slow", () => {
  const found = [...findOccurrences("a".repeat(5_000_000), `b${"a".repeat(100_000)}`)];

  expect(found).toEqual([]);
});

test("the closest line ignores spaces and case", () => {
  expect(findClosestLine("first\n\treturn  FooBar();\nlast", "return fooBar();")).toEqual({
    line: 1,
    text: "\treturn  FooBar();",
  });
  expect(findClosestLine("", "anything")).toBeUndefined();
});
