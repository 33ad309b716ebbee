import fc from "fast-check";
import { expect, test } from "vitest";
import { canonicalJson, clip, cloneFrozen, getOwn, omitUndefined } from "./json.ts";

test("canonicalJson does not depend on the order of keys", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = canonicalJson(value);

      expect(canonicalJson(JSON.parse(text))).toBe(text);
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
  expect(canonicalJson({ b: 1, a: { d: 2, c: 3 } })).toBe('{"a":{"c":3,"d":2},"b":1}');
});

test("canonicalJson writes texts and names as JSON.stringify does", () => {
  const texts = fc.oneof(fc.string({ unit: "binary" }), fc.string({ minLength: 60, maxLength: 70 }));
  fc.assert(
    fc.property(texts, (text) => {
      expect(canonicalJson({ [text]: [text] })).toBe(JSON.stringify({ [text]: [text] }));
    }),
  );
});

test("cloneFrozen freezes the copy and not the original", () => {
  const original = { a: { b: [1] } };

  const copy = cloneFrozen(original);

  expect(() => copy.a.b.push(2)).toThrow(TypeError);
  original.a.b.push(2);
  expect(copy).toEqual({ a: { b: [1] } });
});

test("getOwn finds own keys only", () => {
  expect(getOwn({ a: 1 }, "a")).toBe(1);
  expect(getOwn<unknown>({}, "constructor")).toBeUndefined();
});

test("clip never splits a character", () => {
  expect(clip("abc", 3)).toBe("abc");
  expect(clip("abcd", 3)).toBe("ab…");
  expect(clip("a😀bc", 3)).toBe("a…");
});

test("omitUndefined leaves out undefined values only", () => {
  expect(Object.keys(omitUndefined({ a: 1, b: undefined, c: null, d: false }))).toEqual(["a", "c", "d"]);
});
