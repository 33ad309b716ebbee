import { expect, test } from "vitest";
import { formatSignature } from "./signature.ts";

const signature = (inputSchema: Parameters<typeof formatSignature>[0]["inputSchema"], optional?: number) =>
  formatSignature({ inputSchema }, optional);

test("puts required parameters first and whole, and marks the others", () => {
  const properties = { limit: { type: "integer" }, path: { type: "string" } };

  expect(signature({ type: "object", properties, required: ["path"] })).toBe("(path: string, limit?: integer)");
  expect(signature({ type: "object", properties, required: ["path"] }, 0)).toBe("(path: string, +1)");
  expect(signature({ type: "object", properties, required: ["path", "undescribed", 5] }, 0)).toBe(
    "(path: string, undescribed: any, +1)",
  );
  expect(signature({ properties: { include_all_nested_resource_groups: { type: "boolean" } } })).toBe(
    "(include_all_nested_resource_groups?: boolean)",
  );
  expect(signature({ type: "object" })).toBe("()");
});

test.each([
  [{ enum: ["a", "b"] }, '"a"|"b"'],
  [{ enum: [1, 2, 3, 4, 5] }, "1|2|3|4|…"],
  [{ const: "x" }, '"x"'],
  [{ type: ["string", "null"] }, "string|null"],
  [{ type: "array", items: { type: "string" } }, "string[]"],
  [{ type: "array", items: { type: ["string", "number"] } }, "(string|number)[]"],
  [{ type: "array" }, "any[]"],
  [{ anyOf: [{ type: "string" }, { type: "array", items: { type: "string" } }] }, "string|string[]"],
  [{ type: "object", properties: { start: {}, end: {} } }, "{start, end}"],
  [{ type: "object", properties: { a: {}, b: {}, c: {}, d: {}, e: {}, f: {} } }, "{a, b, c, d, +2}"],
  [{ type: "object" }, "object"],
  [{ type: "array", items: { type: "object", properties: { id: {} } } }, "{id}[]"],
  [{ $ref: "#/$defs/x" }, "any"],
  [true, "any"],
])("%j is %s", (schema, type) => {
  expect(signature({ properties: { x: schema } })).toBe(`(x?: ${type})`);
});

test("stays on one line for any schema", () => {
  const many = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`p${i}`, { type: "string" }]));
  const deep = { type: "array", items: { type: "array", items: { type: "array", items: { type: "array" } } } };
  const long = { ["n".repeat(500)]: { enum: ["v".repeat(500)] }, constructor: { type: "string" } };

  expect(signature({ properties: many }, 2)).toBe("(p0?: string, p1?: string, +48)");
  expect(signature({ properties: { deep } })).toBe("(deep?: array[][])");
  expect(signature({ properties: long }).length).toBeLessThan(120);
  expect(signature({ properties: 5, required: "path" })).toBe("()");
});
