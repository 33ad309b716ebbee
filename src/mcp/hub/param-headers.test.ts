import { expect, test } from "vitest";
import type { JsonObject } from "../../core/json.ts";
import { buildParamHeaders, findParamHeaders, type ParamHeader } from "./param-headers.ts";

const schema = (properties: JsonObject): JsonObject => ({ type: "object", properties });

test("finds annotated arguments at any depth of properties", () => {
  const found = findParamHeaders(
    schema({
      region: { type: "string", "x-mcp-header": "Region" },
      where: schema({ zone: { type: "integer", "x-mcp-header": "Zone" } }),
    }),
  );

  expect(found).toEqual({
    ok: true,
    headers: [
      { path: ["region"], name: "Region" },
      { path: ["where", "zone"], name: "Zone" },
    ],
  });
});

test.each([
  ["no name", schema({ a: { type: "string", "x-mcp-header": "" } })],
  ["no text", schema({ a: { type: "string", "x-mcp-header": 5 } })],
  ["no token", schema({ a: { type: "string", "x-mcp-header": "two words" } })],
  ["a line end", schema({ a: { type: "string", "x-mcp-header": "A\r\nB" } })],
  ["a number", schema({ a: { type: "number", "x-mcp-header": "A" } })],
  ["an object", schema({ a: { type: "object", "x-mcp-header": "A" } })],
  ["no type", schema({ a: { "x-mcp-header": "A" } })],
  ["the root", { type: "object", "x-mcp-header": "A" }],
  ["the items of a list", schema({ a: { type: "array", items: { type: "string", "x-mcp-header": "A" } } })],
  ["a branch", { type: "object", anyOf: [schema({ a: { type: "string", "x-mcp-header": "A" } })] }],
  ["a definition", { type: "object", $defs: { a: { type: "string", "x-mcp-header": "A" } } }],
  [
    "the same name twice",
    schema({ a: { type: "string", "x-mcp-header": "Same" }, b: { type: "string", "x-mcp-header": "same" } }),
  ],
])("refuses %s", (_, inputSchema) => {
  expect(findParamHeaders(inputSchema)).toMatchObject({ ok: false });
});

test("does not take an argument's name or default for an annotation", () => {
  const inputSchema = schema({ "x-mcp-header": { type: "string" }, other: { default: { "x-mcp-header": "no" } } });

  expect(findParamHeaders(inputSchema)).toEqual({ ok: true, headers: [] });
});

test("stops at a schema that is too deep", () => {
  let deep: JsonObject = { type: "string" };
  for (let depth = 0; depth < 5000; depth++) deep = { properties: { a: deep } };

  expect(findParamHeaders(deep)).toEqual({ ok: true, headers: [] });
});

test("encodes unsafe values as base64 and skips absent and nested ones", () => {
  const names = ["plain", "flag", "count", "umlaut", "padded", "lines", "empty", "tab", "lookalike", "nothing", "list"];
  const headers: ParamHeader[] = names.map((name) => ({ path: [name], name }));
  const args = {
    plain: "us west 1",
    flag: false,
    count: 42,
    umlaut: "Zürich",
    padded: " x ",
    lines: "a\r\nb",
    empty: "",
    tab: "\tx",
    lookalike: "=?base64?eA==?=",
    nothing: null,
    list: [1],
  };

  const values = buildParamHeaders(headers, args);

  const encoded = (text: string) => `=?base64?${Buffer.from(text).toString("base64")}?=`;
  expect(values).toEqual({
    "Mcp-Param-plain": "us west 1",
    "Mcp-Param-flag": "false",
    "Mcp-Param-count": "42",
    "Mcp-Param-umlaut": encoded("Zürich"),
    "Mcp-Param-padded": encoded(" x "),
    "Mcp-Param-lines": encoded("a\r\nb"),
    "Mcp-Param-empty": encoded(""),
    "Mcp-Param-tab": encoded("\tx"),
    "Mcp-Param-lookalike": encoded("=?base64?eA==?="),
  });
});
