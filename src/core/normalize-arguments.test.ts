import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type NormalForm, normalForms, normalizeArgs } from "./normalize-arguments.ts";

const normal = (form: NormalForm, value: string) => normalizeArgs({ value: form }, { value }).args.value;

test.each([
  ["path", "a/b", "a/b"],
  ["path", "./a//b/./c/", "a/b/c"],
  ["path", "a/../b", "b"],
  ["path", "/a/./b/", "/a/b"],
  ["path", "//a", "/a"],
  ["path", "/", "/"],
  ["path", "./", "."],
  ["path", "", ""],
  ["url", "HTTP://EXAMPLE.com:80", "http://example.com/"],
  ["url", "https://example.com./a/../%70rivate/%2e%2e/b?x=%41#top", "https://example.com/b?x=A"],
  ["url", "https://example.com/%2fa%2Fb", "https://example.com/%2Fa%2Fb"],
  ["url", "https://example.com../a?", "https://example.com/a"],
  ["url", "https://example.com/a?#top", "https://example.com/a"],
  ["url", "postgres://D%42.Internal%2e/x", "postgres://db.internal/x"],
  ["name", "ad\u034fmin\ufe0f\u3164", "admin"],
  ["name", " e\u0301\u200b ", "\u00e9"],
] as const)("the %s %j is %j", (form, given, expected) => {
  expect(normal(form, given)).toBe(expected);
});

test.each([
  ["path", "../a", "path_refused"],
  ["path", "a/../../b", "path_refused"],
  ["path", "/..", "path_refused"],
  ["path", "a\\b", "path_refused"],
  ["path", "a\0", "path_refused"],
  ["url", "example.com", "invalid_arguments"],
  ["url", "https://user:key@example.com/", "invalid_arguments"],
] as const)("rejects the %s %j with %s", (form, given, code) => {
  expect(() => normal(form, given)).toThrow(expect.objectContaining({ code }));
});

describe.each(normalForms)("a normal %s", (form) => {
  const text = fc.oneof(
    fc.string({ unit: "binary" }),
    fc
      .array(fc.constantFrom("a", ".", "..", "/", "%2e", "%41", "%25", "%", "?", "#", "é", "\u200d", " "))
      .map((parts) => parts.join("")),
    fc.webUrl({ withFragments: true, withQueryParameters: true }),
  );

  test("is its own normal form", () => {
    fc.assert(
      fc.property(text, (given) => {
        let once: string;
        try {
          once = String(normal(form, form === "url" && !given.includes("://") ? `https://a.example/${given}` : given));
        } catch {
          return;
        }
        expect(normal(form, once)).toBe(once);
      }),
      { numRuns: 2000 },
    );
  });
});

test("normalizes nested fields and list items, and leaves other values alone", () => {
  const forms = { "a.path": "path", list: "path", missing: "path", number: "path" } as const;

  expect(normalizeArgs(forms, { a: [{ path: "./x" }, { other: "./y" }], list: "./z", number: 1 })).toEqual({
    args: { a: [{ path: "x" }, { other: "./y" }], list: "z", number: 1 },
    changed: ["a.path", "list"],
  });
  expect(normalizeArgs(forms, { list: ["a/./b", ["c//d"]] })).toEqual({
    args: { list: ["a/b", ["c/d"]] },
    changed: ["list"],
  });
});
