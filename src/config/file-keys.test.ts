import { expect, test } from "vitest";
import { z } from "zod";
import { fileKeys, listFileKeys, listOptionKeys, parseFileValue } from "./file-keys.ts";
import { integer, referenceText, text } from "./schema-values.ts";

const schema = z.strictObject({
  topK: integer(1).optional(),
  previewLimit: integer(1).register(fileKeys, { key: "preview_chars" }).default(5),
  byName: z.record(z.string(), z.strictObject({ isOn: z.boolean() })).default({}),
  rules: z.array(z.union([z.boolean(), z.strictObject({ autoRun: text("text") })])).default([]),
  plainName: text("a name").optional(),
  filledPath: referenceText("a path").optional(),
});

test("reads keys in snake_case, and leaves names and values alone", () => {
  const value = {
    top_k: 2,
    preview_chars: 3,
    by_name: { my_name: { is_on: true } },
    rules: [true, { auto_run: "x_y" }],
  };

  expect(parseFileValue(schema, value)).toEqual({
    success: true,
    data: { topK: 2, previewLimit: 3, byName: { my_name: { isOn: true } }, rules: [true, { autoRun: "x_y" }] },
  });
});

test.each([
  [{ topK: 2 }, "topK"],
  [{ previewLimit: 2 }, "previewLimit"],
  [{ preview_limit: 2 }, "preview_limit"],
  [{ "?top_k": 2 }, "?top_k"],
])("rejects the key of %j", (value, key) => {
  expect(parseFileValue(schema, value)).toMatchObject({
    issues: [{ path: [], keys: [key], message: `unknown key ${key}` }],
  });
});

test("reports problems under the keys of the file", () => {
  expect(parseFileValue(schema, { preview_chars: 0, by_name: { a_b: { is_on: 1 } } })).toMatchObject({
    issues: [{ path: ["preview_chars"] }, { path: ["by_name", "a_b", "is_on"] }],
  });
});

test("takes references only where they are filled", () => {
  const reference = `\${env:NAME}`;

  expect(parseFileValue(schema, { filled_path: reference })).toMatchObject({ success: true });
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a malformed reference
  expect(parseFileValue(schema, { filled_path: "${NAME}" })).toMatchObject({ issues: [{ path: ["filled_path"] }] });
  expect(parseFileValue(schema, { plain_name: reference })).toMatchObject({
    issues: [{ path: ["plain_name"], message: "a reference cannot be used here" }],
  });
  expect(parseFileValue(schema, { by_name: { [reference]: { is_on: true } } })).toMatchObject({
    issues: [{ path: ["by_name", reference], message: "a reference cannot be used here" }],
  });
});

test("lists the keys at a path, for the file and for code", () => {
  expect(listFileKeys(schema, [])).toEqual(["top_k", "preview_chars", "by_name", "rules", "plain_name", "filled_path"]);
  expect(listFileKeys(schema, ["by_name", "x"])).toEqual(["is_on"]);
  expect(listFileKeys(schema, ["by_name"])).toEqual([]);
  expect(listOptionKeys(schema, ["byName", "x"])).toEqual(["isOn"]);
  expect(listOptionKeys(schema, ["rules", 0])).toEqual(["autoRun"]);
});
