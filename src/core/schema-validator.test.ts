import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonSchema } from "./action.ts";
import type { Json } from "./json.ts";
import { SchemaChecker } from "./schema-validator.ts";

const budget = () => ({ left: 10_000_000 });
const check = (schema: JsonSchema, value: unknown) =>
  new SchemaChecker(schema).check(value, budget(), false).map(({ path, message }) => `${path} ${message}`);

const value = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    fc.constantFrom(null, true, 0, 1, 2.5, -3, "", "a", "ab", "2026-11-16"),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom("a", "b", "c"), tie("value"), { maxKeys: 3, noNullPrototype: true }),
  ),
})).value as fc.Arbitrary<Json>;

/**
 * A few keywords at a time: schemas with all of them take for ever to make. Without `contains` and `unevaluated…`, on
 * which ajv errs in rare combinations.
 */
function schemaOf(depth: number): fc.Arbitrary<JsonSchema | boolean> {
  if (depth === 0) return fc.constantFrom<JsonSchema | boolean>(true, false, { type: "string" }, { const: 1 }, {});
  const inner = schemaOf(depth - 1);
  const many = fc.array(inner, { minLength: 1, maxLength: 3 });
  const named = fc.dictionary(fc.constantFrom("a", "b", "c"), inner, { maxKeys: 2 });
  const small = fc.nat({ max: 3 });
  const keywords: Record<string, fc.Arbitrary<unknown>> = {
    type: fc.constantFrom("object", "array", "string", "integer", "number", "boolean", "null"),
    enum: fc.uniqueArray(value, { minLength: 1, maxLength: 3 }),
    const: value,
    minimum: small,
    exclusiveMaximum: small,
    multipleOf: fc.constantFrom(1, 2, 0.5),
    minLength: small,
    maxLength: small,
    pattern: fc.constantFrom("^a", "b$", "(?=a)."),
    minItems: small,
    maxItems: small,
    uniqueItems: fc.boolean(),
    prefixItems: many,
    items: inner,
    minProperties: small,
    maxProperties: small,
    required: fc.uniqueArray(fc.constantFrom("a", "b"), { maxLength: 2 }),
    dependentRequired: fc.constant({ a: ["b"] }),
    propertyNames: inner,
    properties: named,
    patternProperties: fc.dictionary(fc.constantFrom("^a", "b|c"), inner, { maxKeys: 2 }),
    additionalProperties: inner,
    allOf: many,
    anyOf: many,
    oneOf: many,
    not: inner,
    if: inner,
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: inner,
    else: inner,
  };
  const pairs = Object.entries(keywords).map(([name, made]) => made.map((one): [string, unknown] => [name, one]));
  return (
    fc
      .array(fc.oneof(...pairs), { minLength: 1, maxLength: 4 })
      .map((chosen) => Object.fromEntries(chosen) as JsonSchema)
      // ajv leaves out an `if` without branches, and with it what it says of items and fields.
      .filter((schema) => !("if" in schema) || "then" in schema || "else" in schema)
  );
}

describe("a schema checker", () => {
  test("agrees with ajv on random schemas and values", () => {
    fc.assert(
      fc.property(schemaOf(2), value, (made, given) => {
        const ajv = new Ajv2020({ strict: false, validateSchema: false, meta: false, logger: false });
        // From JSON, because ajv takes an object without a prototype for another value than one with.
        const validate = ajv.compile(JSON.parse(JSON.stringify(made)));
        let expected: boolean | undefined;
        try {
          expected = validate(JSON.parse(JSON.stringify(given)));
        } catch {
          // The code that ajv generates for some combinations, such as anyOf with dependentRequired, throws a TypeError.
          fc.pre(false);
        }

        expect(check({ allOf: [made] }, given).length === 0).toBe(expected);
      }),
      { numRuns: 400 },
    );
  });

  test.each<[JsonSchema, unknown, boolean]>([
    [{ contains: { const: 1 }, maxContains: 1 }, [0, 1], true],
    [{ contains: { const: 1 }, maxContains: 1 }, [1, 1], false],
    [{ contains: true, prefixItems: [{ const: 1 }] }, [], false],
    [{ minContains: 0, contains: { const: 1 } }, [], true],
    [{ prefixItems: [true], unevaluatedItems: false }, [1], true],
    [{ prefixItems: [true], unevaluatedItems: false }, [1, 2], false],
    [{ anyOf: [{ unevaluatedItems: true }], unevaluatedItems: false }, [1], true],
    [{ allOf: [{ properties: { a: {} } }], unevaluatedProperties: false }, { a: 1 }, true],
    [{ allOf: [{ properties: { a: {} } }], unevaluatedProperties: false }, { a: 1, b: 2 }, false],
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    [{ if: { required: ["a"] }, then: { properties: { a: {} } }, unevaluatedProperties: false }, { a: 1 }, true],
  ])("%j on %j is %s", (made, given, fits) => {
    expect(check(made, given).length === 0).toBe(fits);
  });

  test("follows references, anchors and circular references", () => {
    const tree: JsonSchema = {
      type: "object",
      properties: { left: { $ref: "#" }, right: { $ref: "#node" }, tag: { $ref: "#/$defs/tag~1name" } },
      additionalProperties: false,
      $defs: { node: { $anchor: "node", type: "object", required: ["tag"] }, "tag/name": { type: "string" } },
    };

    expect(check(tree, { left: { left: { tag: "x" } }, right: { tag: 1 } })).toEqual([]);
    expect(check(tree, { left: { tag: 1 }, right: {} })).toEqual([
      "/left/tag must be string",
      "/right must have required property 'tag'",
    ]);
    expect(() => check({ $ref: "#" }, 1)).toThrow(/too deep/);
  });

  test.each([
    ["date", "2024-02-29", "2023-02-29"],
    ["time", "23:59:60Z", "24:00:00Z"],
    ["date-time", "2026-11-16T10:00:00+01:00", "2026-11-16"],
    ["duration", "P1DT2H", "1D"],
    ["email", "a.b+c@example.com", "a@b@"],
    ["hostname", "a-b.example", "-a.example"],
    ["ipv4", "127.0.0.1", "127.0.0.256"],
    ["ipv6", "::1", "::g"],
    ["uri", "mailto:a@b.c", "no scheme"],
    ["uri-template", "/a/{b}", "/a/{b"],
    ["url", "http://a.b/c", "//a.b"],
    ["uuid", "8f644fd4-7a55-4231-9c1e-0123456789ab", "8f644fd4"],
    ["regex", "^a+$", "("],
    ["json-pointer", "/a/b~0", "a"],
    ["byte", "aGk=", "a"],
  ])("checks the format %s", (format, good, bad) => {
    expect(check({ format }, good)).toEqual([]);
    expect(check({ format }, bad)).toEqual([` must match format "${format}"`]);
    expect(check({ format }, 1)).toEqual([]);
  });

  test("fills in defaults outside branches, even for __proto__", () => {
    const made: JsonSchema = JSON.parse(
      '{"type":"object","required":["a"],"properties":{"a":{"default":1},"__proto__":{"default":2},"b":{"type":"object","properties":{"c":{"default":[3]}}}},"anyOf":[{"properties":{"d":{"default":4}}}]}',
    );
    const filled = { b: {} };

    expect(new SchemaChecker(made).check(filled, budget(), true)).toEqual([]);

    expect(JSON.stringify(filled)).toBe('{"b":{"c":[3]},"a":1,"__proto__":2}');
    expect(Object.getPrototypeOf(filled)).toBe(Object.prototype);
  });
});
