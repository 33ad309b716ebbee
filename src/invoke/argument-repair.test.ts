import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonSchema } from "../core/action.ts";
import { createMinimalExample, repairToSchema } from "./argument-repair.ts";
import { type ArgumentSpec, copyArguments, prepareArguments } from "./arguments.ts";

const prepared = (action: ArgumentSpec, given: unknown) => prepareArguments(action, copyArguments(given));

const schema: JsonSchema = {
  type: "object",
  properties: {
    path: { type: "string" },
    limit: { type: "integer" },
    ratio: { type: "number" },
    deep: { type: "boolean" },
    tags: { type: "array", items: { type: "string" } },
    options: { type: "object", properties: { max_size: { type: "integer" } } },
    items: { type: "array", items: { type: "object", properties: { id: { type: "integer" } } } },
    either: { anyOf: [{ type: "integer" }, { type: "null" }] },
  },
  required: ["path"],
  additionalProperties: false,
};

const action = { name: "file__read", inputSchema: schema, examples: [] };

describe("repairs slips of a model", () => {
  test.each<[string, unknown, unknown]>([
    ["JSON text for the whole", '{"path":"a"}', { path: "a" }],
    ["wrapped twice", { args: { path: "a" } }, { path: "a" }],
    ["wrapped three times, in other words", { arguments: { input: { path: "a" } } }, { path: "a" }],
    ["wrapped JSON text", { args: '{"path":"a"}' }, { path: "a" }],
    ["a number as text", { path: "a", limit: "10" }, { path: "a", limit: 10 }],
    ["a fraction as text", { path: "a", ratio: "0.5" }, { path: "a", ratio: 0.5 }],
    ["true as text", { path: "a", deep: "True" }, { path: "a", deep: true }],
    ["a number where text is wanted", { path: 7 }, { path: "7" }],
    ["one item where a list is wanted", { path: "a", tags: "x" }, { path: "a", tags: ["x"] }],
    ["a list as JSON text", { path: "a", tags: '["x","y"]' }, { path: "a", tags: ["x", "y"] }],
    ["an object as JSON text", { path: "a", options: '{"max_size":"3"}' }, { path: "a", options: { max_size: 3 } }],
    ["items of a list", { path: "a", items: [{ id: "1" }, '{"id":2}'] }, { path: "a", items: [{ id: 1 }, { id: 2 }] }],
    ["a key in another case", { Path: "a", options: { maxSize: 3 } }, { path: "a", options: { max_size: 3 } }],
    ["null for something optional", { path: "a", limit: null }, { path: "a" }],
    ["null where it is allowed", { path: "a", either: null }, { path: "a", either: null }],
    ["a number among alternatives", { path: "a", either: "5" }, { path: "a", either: 5 }],
  ])("%s", (_name, given, expected) => {
    expect(prepared(action, given).args).toEqual(expected);
  });

  test("leaves a text under an unknown name there, so that the error names it", () => {
    const optional = { ...action, inputSchema: { ...schema, required: [] } };
    expect(() => prepared(optional, { input: "some text" })).toThrow(/input/);
  });

  test("reports the repairs", () => {
    expect(prepared(action, { args: { path: "a", limit: "1" } }).repairs).toEqual([
      "/args: unwrapped",
      "/limit: string read as integer",
    ]);
  });
});

describe("leaves valid arguments alone", () => {
  test.each<[string, JsonSchema, unknown]>([
    [
      "arguments that fit as they are",
      { type: "object", properties: { args: { type: "object" } } },
      { args: { path: "a" } },
    ],
    ["text that is wanted as text", { type: "object", properties: { v: { type: "string" } } }, { v: "10" }],
    ["JSON text that is wanted as text", { type: "object", properties: { v: { type: "string" } } }, { v: '{"a":1}' }],
  ])("%s", (_name, inputSchema, given) => {
    expect(prepared({ name: "x", inputSchema, examples: [] }, given)).toEqual({ args: given, repairs: [] });
  });

  test.each([["ten", "1e999", "0x10", "9007199254740993000000", "1,5", ""]])("%j is no number", (...texts) => {
    for (const text of texts) expect(() => prepared(action, { path: "a", limit: text })).toThrow(/do not fit/);
  });
});

describe("arguments that cannot be repaired", () => {
  test("are answered with the problems, the schema and a minimal example", () => {
    let problem: unknown;
    try {
      prepared(action, { limit: "many" });
    } catch (thrown) {
      problem = (thrown as { toProblem(): unknown }).toProblem();
    }

    expect(problem).toEqual({
      code: "invalid_arguments",
      error:
        "the arguments of file__read do not fit: the arguments must have required property 'path'; /limit must be integer",
      problems: [
        { path: "", message: "must have required property 'path'" },
        { path: "/limit", message: "must be integer" },
      ],
      input_schema: schema,
      example: { path: "text" },
      hint: expect.stringContaining("example"),
    });
  });

  test.each<[string, unknown]>([
    ["a list", []],
    ["a number", 3],
    ["text that is no JSON", "path=a"],
    ["a function", () => {}],
    ["a BigInt", { path: 1n }],
    ["too much", { path: "x".repeat(1_100_000) }],
  ])("%s is refused", (_name, given) => {
    expect(() => prepared(action, given)).toThrow();
  });

  test("refuses a cycle", () => {
    const cycle: Record<string, unknown> = {};
    cycle.self = cycle;

    expect(() => prepared(action, cycle)).toThrow(/nested deeper than 256/);
  });

  test("treats prototype keys as plain keys", () => {
    const given = JSON.parse('{"path":"a","__proto__":{"polluted":true}}');

    expect(() => prepared(action, given)).toThrow(/additional properties/);
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });
});

test("never throws on any schema and value", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (made, given) => {
      repairToSchema({ type: "object", properties: { a: made } } as JsonSchema, given);
      repairToSchema(schema, given);
    }),
    { numRuns: 1000 },
  );
});

test("offers an example only if it fits", () => {
  const impossible: JsonSchema = {
    type: "object",
    properties: { a: { type: "string", pattern: "^zz$" } },
    required: ["a"],
  };

  expect(createMinimalExample({ inputSchema: impossible, examples: [] })).toBeUndefined();
  expect(createMinimalExample({ inputSchema: impossible, examples: [{ args: { a: "zz" } }] })).toEqual({ a: "zz" });
  expect(
    createMinimalExample({
      inputSchema: {
        type: "object",
        properties: {
          when: { type: "string", format: "date" },
          kind: { enum: ["x"] },
          n: { type: "integer", minimum: 3 },
          ref: { $ref: "#/$defs/r" },
        },
        required: ["when", "kind", "n", "ref"],
        $defs: { r: { type: "array", items: { type: "boolean" }, minItems: 1 } },
      },
      examples: [],
    }),
  ).toEqual({ when: "2026-01-31", kind: "x", n: 3, ref: [false] });
});
