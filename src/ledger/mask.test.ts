import { expect, test } from "vitest";
import { createSecretMasker } from "./mask.ts";

const mask = createSecretMasker(() => [
  { name: "PIN", value: "123456" },
  { name: "LONG", value: 'pa"ss word' },
  { name: "INNER", value: "ss word" },
  "no-name-given",
]);

test.each([
  ["in a text", "a 123456 b", "a [secret PIN] b", [{ name: "PIN", times: 1 }]],
  ["in a number", { pin: 123456 }, { pin: "[secret PIN]" }, [{ name: "PIN", times: 1 }]],
  ["in a key", { a123456: 1 }, { "a[secret PIN]": 1 }, [{ name: "PIN", times: 1 }]],
  ["as a URL writes it", "x?p=pa%22ss%20word", "x?p=[secret LONG]", [{ name: "LONG", times: 1 }]],
  ["inside another one", ['pa"ss word'], ["[secret LONG]"], [{ name: "LONG", times: 1 }]],
  ["without a name", "no-name-given", "[secret unnamed 1]", [{ name: "unnamed 1", times: 1 }]],
])("masks a known secret %s", (_where, value, expected, masked) => {
  expect(mask(value)).toEqual({ value: expected, masked });
});

test("does not mask text that only looks like a secret", () => {
  const value = {
    password: "hunter2",
    text: "Authorization: Bearer abc; token=x -----BEGIN PRIVATE KEY-----\n rm -rf",
  };

  expect(mask(value)).toEqual({ value, masked: [] });
});

test("keeps two keys apart that are masked alike", () => {
  expect(mask({ "123456": 1, "[secret PIN]": 2 }).value).toEqual({ "[secret PIN]": 1, "[secret PIN] (2)": 2 });
});

test("covers secrets that overlap with one mask", () => {
  const both = createSecretMasker(() => [
    { name: "A", value: "abcdef" },
    { name: "B", value: "defghi" },
  ]);

  expect(both("xabcdefghiy").value).toBe("x[secret A, B]y");
});
