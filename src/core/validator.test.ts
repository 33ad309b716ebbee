import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { JsonSchema } from "./action.ts";
import { guardSchema } from "./schema-guard.ts";
import { getValidator } from "./schema-validator.ts";
import { toJsonSchema } from "./standard-schema.ts";

const check = (schema: JsonSchema, value: unknown) =>
  getValidator(schema, "arguments")(value, JSON.stringify(value).length).map(
    ({ path, message }) => `${path} ${message}`,
  );

describe("validation", () => {
  const schema: JsonSchema = {
    type: "object",
    properties: {
      path: { type: "string", minLength: 1 },
      mode: { enum: ["read", "write"] },
      limit: { type: "integer", default: 10 },
      when: { type: "string", format: "date" },
    },
    required: ["path"],
    additionalProperties: false,
  };

  test("reports every mismatch with its path", () => {
    expect(check(schema, { mode: "append", extra: 1, when: "soon" })).toEqual([
      " must have required property 'path'",
      ' must NOT have additional properties: "extra"; it takes path, mode, limit, when',
      '/mode must be equal to one of the allowed values: "read", "write"',
      '/when must match format "date"',
    ]);
  });

  test("fills in defaults", () => {
    const value = { path: "a" };

    expect(check(schema, value)).toEqual([]);
    expect(value).toEqual({ path: "a", limit: 10 });
  });

  test("checks a result of any type without changing it", () => {
    const value = {};

    expect(getValidator({ type: "object", properties: { a: { default: 1 } } }, "result")(value, 2)).toEqual([]);
    expect(value).toEqual({});
    expect(getValidator({ type: "number" }, "result")(1, 1)).toEqual([]);
  });

  test.each(["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"])(
    "reads %s",
    ($schema) => {
      expect(check({ ...schema, $schema }, { path: "a" })).toEqual([]);
    },
  );

  test("accepts a zod schema", () => {
    const made = toJsonSchema(z.object({ a: z.string(), b: z.number().optional() }));

    expect(check(made, { a: "x" })).toEqual([]);
    expect(check(made, { a: 1 })).toEqual(["/a must be string"]);
  });
});

const laughs = (levels: number): JsonSchema => ({
  type: "object",
  allOf: [{ $ref: "#/$defs/l0" }],
  $defs: Object.fromEntries(
    Array.from({ length: levels }, (_, index) => [
      `l${index}`,
      index === levels - 1
        ? { properties: { x: { type: "number" } } }
        : { allOf: Array.from({ length: 10 }, () => ({ $ref: `#/$defs/l${index + 1}` })) },
    ]),
  ),
});

/** The same, with the definitions under an unknown keyword. */
const laughsElsewhere = (levels: number): JsonSchema =>
  JSON.parse(JSON.stringify(laughs(levels)).replaceAll("$defs", "x-parts"));

const hugePattern = (seed: number): string =>
  Array.from({ length: 20 }, (_, at) => `[ab]{${90 + at}}c${seed}`).join("|");

describe("hostile schemas end in a clear error within bounds", () => {
  const deep = (depth: number): JsonSchema => {
    let schema: JsonSchema = { type: "string" };
    for (let level = 0; level < depth; level++) schema = { type: "object", properties: { x: schema } };
    return schema;
  };
  const wide = (count: number): JsonSchema => ({
    type: "object",
    properties: Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, { type: "string" }])),
  });
  const cyclic: Record<string, unknown> = { type: "object" };
  cyclic.properties = { self: cyclic };

  test.each<[string, unknown, unknown, RegExp]>([
    ["null", null, {}, /is null, not an object/],
    ["a string", "object", {}, /is a string, not an object/],
    ["a list", [], {}, /is an array, not an object/],
    ["of a string", { type: "string" }, {}, /has type "string"/],
    ["without a type", {}, {}, /has no type/],
    ["cyclic", cyclic, {}, /nested more than 64/],
    ["with a BigInt", { type: "object", maxProperties: 3n }, {}, /not JSON/],
    ["very deep", deep(70), {}, /nested more than 64/],
    ["deeper than the stack", deep(20_000), {}, /./],
    ["very wide", wide(6_000), {}, /more than 5000 parts/],
    ["very large", { type: "object", description: "x".repeat(200_000) }, {}, /bytes/],
    [
      "pointing to the network",
      { type: "object", properties: { a: { $ref: "http://example.com/x" } } },
      {},
      /points outside/,
    ],
    [
      "pointing outside behind a costly part",
      { type: "object", properties: { a: { $ref: "#/$defs/x" }, b: { $ref: "http://x" } }, $defs: { x: {} } },
      {},
      /points outside/,
    ],
    ["pointing to a file", { type: "object", $ref: "file:///etc/passwd" }, {}, /points outside/],
    ["referring to nothing", { type: "object", $ref: "#/$defs/none" }, {}, /points at nothing/],
    [
      "a loop of references",
      { type: "object", $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/a" } } },
      { a: 1 },
      /cannot be used/,
    ],
    ["billion laughs", laughs(9), { x: 1 }, /could not be evaluated/],
    ["billion laughs behind an unknown keyword", laughsElsewhere(9), { x: 1 }, /could not be evaluated/],
    [
      "a wrong keyword",
      { type: "object", properties: { a: { type: "strin" } } },
      { a: 1 },
      /has the unknown type "strin"/,
    ],
    [
      "a pattern that is none",
      { type: "object", properties: { a: { pattern: "(" } } },
      { a: "x" },
      /has the pattern "\(", which is not a regular expression/,
    ],
    [
      "a backtracking pattern with look-ahead",
      { type: "object", properties: { a: { pattern: "^(?=(a+)+$)(a+)+$" } } },
      { a: `${"a".repeat(40)}b` },
      /could not be evaluated/,
    ],
    [
      "a linear pattern with many states, in many places",
      {
        type: "object",
        additionalProperties: { allOf: Array.from({ length: 8 }, (_, at) => ({ pattern: hugePattern(at) })) },
      },
      { a: "ab".repeat(7_500) },
      /could not be evaluated|too large/,
    ],
  ])("%s", (_name, schema, value, message) => {
    expect(() => {
      guardSchema(schema, "arguments");
      check(schema as JsonSchema, value);
    }).toThrow(message);
  });

  test("rejects many costly patterns, quickly and once", () => {
    const schema: JsonSchema = {
      type: "object",
      patternProperties: Object.fromEntries(Array.from({ length: 2_400 }, (_, index) => [`\\pL{0,999}${index}`, {}])),
    };

    expect(() => guardSchema(schema, "arguments")).toThrow(/too large/);
  });

  test("does not treat data that looks like a schema as a schema", () => {
    const schema: JsonSchema = {
      type: "object",
      properties: {
        type: { type: "string", default: { type: "nonsense", $ref: "http://x" } },
        a: { enum: [{ type: "x" }] },
      },
    };

    expect(guardSchema(schema, "arguments")).toEqual(schema);
  });

  test("a large value reaches the work limit even with a harmless schema", () => {
    const choices = Array.from({ length: 1_200 }, (_, index) => ({ a: { b: { c: index } } }));
    const schema: JsonSchema = { type: "object", properties: { list: { type: "array", items: { enum: choices } } } };

    expect(() => check(schema, { list: Array.from({ length: 20_000 }, () => ({ a: { b: { c: 1_199 } } })) })).toThrow(
      /could not be evaluated/,
    );
  });

  test("checks unique items without comparing every pair", () => {
    const schema: JsonSchema = { type: "object", properties: { a: { type: "array", uniqueItems: true } } };
    const many = Array.from({ length: 30_000 }, (_, index) => ({ v: { w: index } }));

    expect(check(schema, { a: many })).toEqual([]);
    expect(check(schema, { a: [...many, { v: { w: 7 } }] })).toEqual(["/a must NOT have duplicate items"]);
    expect(
      check(schema, {
        a: [
          { x: 1, y: 2 },
          { y: 2, x: 1 },
        ],
      }),
    ).toEqual(["/a must NOT have duplicate items"]);
  });

  test("stops after eight mismatches", () => {
    const schema: JsonSchema = { type: "object", properties: { a: { type: "array", items: { type: "string" } } } };

    expect(check(schema, { a: Array.from({ length: 500_000 }, () => 1) })).toHaveLength(8);
  });

  test("checks a pattern with lookahead", () => {
    const schema = toJsonSchema(z.object({ to: z.email() }));

    expect(check(schema, { to: "ann@example.com" })).toEqual([]);
    expect(check(schema, { to: "a..b@example.com" })).toHaveLength(1);
  });

  test("checks a backtracking pattern on the linear engine", () => {
    const schema: JsonSchema = { type: "object", properties: { a: { type: "string", pattern: "^(a+)+$" } } };

    expect(check(schema, { a: `${"a".repeat(5000)}b` })).toEqual(['/a must match pattern "^(a+)+$"']);
  });

  test("treats names of prototype members as plain keys", () => {
    const schema = JSON.parse(
      '{"type":"object","properties":{"__proto__":{"type":"number"},"constructor":{"type":"number"}}}',
    );

    expect(check(schema, JSON.parse('{"constructor":1}'))).toEqual([]);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });
});

test("suggests the nearest field for an unknown one", () => {
  const schema = { type: "object", properties: { target: {}, count: {} }, additionalProperties: false };

  const [mismatch] = getValidator(schema, "arguments")({ tarcet: 1 }, 10);

  expect(mismatch?.message).toContain('"tarcet"; did you mean target?; it takes target, count');
});
