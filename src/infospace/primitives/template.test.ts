import { expect, test } from "vitest";
import type { JsonSchema } from "../../core/action.ts";
import type { JsonObject } from "../../core/json.ts";
import { compileTemplate } from "./template.ts";

const item = { id: 12, content: { owner: { id: 7 }, list: [1, 2], "": 0 } };

test.each<[JsonObject, JsonObject]>([
  [
    { a: { $item: "owner.id" }, b: "fixed" },
    { a: 7, b: "fixed" },
  ],
  [{ a: [{ $item: "list[-1]" }, { b: { $item: "" } }] }, { a: [2, { b: item.content }] }],
  [{ target: { $handle: true } }, { target: "note__12" }],
  [{ a: { $item: "owner", b: 1 } }, { a: { $item: "owner", b: 1 } }],
  [
    { a: { $handle: false }, b: { $item: 5 } },
    { a: { $handle: false }, b: { $item: 5 } },
  ],
])("%j becomes %j", (template, args) => {
  expect(compileTemplate(template)(item)).toEqual({ args });
});

test("takes an object item as the arguments without a template", () => {
  expect(compileTemplate(undefined)(item)).toEqual({ args: item.content });
  const schema = { required: ["a", "b"] };
  expect(compileTemplate(undefined, schema)({ content: "text" })).toEqual({
    missing: expect.stringContaining("not an object"),
  });
  expect(compileTemplate(undefined)({ content: [1] })).toEqual({ missing: expect.stringContaining("not an object") });
});

test("takes a text as input while the schema of the action is not known", () => {
  expect(compileTemplate(undefined)({ content: "text" })).toEqual({ args: { input: "text" } });
});

test.each<[string, JsonSchema, object]>([
  ["the only required argument", { required: ["text"], properties: { text: {}, input: {} } }, { text: "hello" }],
  ["the argument called input", { properties: { input: {}, words: {} } }, { input: "hello" }],
  [
    "the argument called input of several",
    { required: ["input", "to"], properties: { input: {} } },
    { input: "hello" },
  ],
])("takes a text item as %s without a template", (_what, schema, args) => {
  expect(compileTemplate(undefined, schema)({ content: "hello" })).toEqual({ args });
  expect(compileTemplate(undefined, schema)({ content: { a: 1 } })).toEqual({ args: { a: 1 } });
  expect(compileTemplate({ b: 2 }, schema)({ content: "hello" })).toEqual({ args: { b: 2 } });
});

test("drops a text item that an action has no single argument for", () => {
  const schema = { required: ["from", "to"], properties: { from: {}, to: {} } };

  expect(compileTemplate(undefined, schema)({ content: "hello" })).toEqual({
    missing: expect.stringContaining("not an object"),
  });
});

test("reports the missing part of an item", () => {
  expect(compileTemplate({ a: { $item: "owner.name" } })(item)).toEqual({ missing: "owner has no name; it has: id" });
  expect(compileTemplate({ a: { $handle: true } })({ content: 1 })).toEqual({
    missing: expect.stringContaining("no handle"),
  });
  expect(() => compileTemplate({ a: { $item: "owner[" } })).toThrow(/is not a path/);
});

test.each([
  ["$item.note", "note"],
  ["Summarize this: $item.owner.name.", "owner.name"],
  ["{{item.note}}", "note"],
  ["{{ $item.list[0] }}", "list[0]"],
  [`x \${item.id}`, "id"],
  ["$item", ""],
])("%s in a text is refused, with how to write it", (text, path) => {
  const hint = expect.stringContaining(JSON.stringify({ $item: path }));

  for (const args of [{ a: text }, { a: [{ b: text }] }]) {
    expect(() => compileTemplate(args)).toThrow(expect.objectContaining({ code: "invalid_arguments", hint }));
  }
  expect(() => compileTemplate({ a: "$handle" })).toThrow(/nothing is filled in inside a text/);
});

test.each(["$items", "item.note", "5 $ an item", "{{note}}", "{{items}}"])("%s is a text as any other", (text) => {
  expect(compileTemplate({ a: text })(item)).toEqual({ args: { a: text } });
});

test("keeps names such as __proto__", () => {
  const made = compileTemplate(JSON.parse('{"__proto__":{"$item":"x"}}') as JsonObject)({
    content: JSON.parse('{"x":{"__proto__":1}}'),
  });

  expect(JSON.stringify(made)).toBe('{"args":{"__proto__":{"__proto__":1}}}');
});
