import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import {
  createQuartermaster,
  errorCodes,
  type JsonSchema,
  type Outcome,
  QmError,
  type Quartermaster,
} from "../src/index.ts";

const statuses = ["done", "failed", "refused"];

function expectSound(outcome: Outcome): void {
  expect(statuses).toContain(outcome.status);
  expect(outcome.value.length).toBeLessThanOrEqual(4096);
  if ("error" in outcome) {
    expect(Object.keys(errorCodes)).toContain(outcome.error.code);
    expect(outcome.error.code).not.toBe("internal");
    expect(outcome.reason).not.toBe("");
  }
}

const sound = { description: "Does something.", handler: () => "ran", scope: "generalist", effect: "pure" } as const;

describe("1,000 random registrations and calls", () => {
  // Mostly valid values. Each part is sometimes replaced by an arbitrary value.
  const often = <T>(usual: fc.Arbitrary<T>) =>
    fc.oneof({ weight: 8, arbitrary: usual as fc.Arbitrary<unknown> }, { weight: 1, arbitrary: fc.anything() });
  const type = fc.constantFrom("string", "number", "integer", "boolean", "array", "object", "null");
  const property = fc.record({ type: often(type) }, { requiredKeys: ["type"] });
  const schema = fc.record({
    type: often(fc.constant("object")),
    properties: often(
      fc.dictionary(fc.constantFrom("a", "b", "path", "args", "__proto__", "constructor"), property, { maxKeys: 4 }),
    ),
    required: often(fc.subarray(["a", "b", "path"])),
    additionalProperties: often(fc.boolean()),
  });
  const handler = fc.constantFrom<() => unknown>(
    () => "ran",
    () => undefined,
    () => {
      throw new Error("broke");
    },
    async () => Promise.reject(null),
    () => 1n,
    () => Symbol("x"),
    () => ({
      toJSON: () => {
        throw new Error("no JSON");
      },
    }),
    () =>
      new Proxy(
        {},
        {
          ownKeys: () => {
            throw new Error("trap");
          },
        },
      ),
  );
  const tool = fc.record({
    name: often(fc.constantFrom("one", "two", "a.b", "x-y", "deep__er")),
    description: often(fc.constant("Does something.")),
    inputSchema: often(schema),
    handler: often(handler),
    scope: often(fc.constantFrom("generalist", "specialist")),
    effect: often(fc.constantFrom("pure", "read", "write", "external", "stateful")),
  });
  const args = fc.oneof(fc.anything(), fc.record({ a: fc.anything(), path: fc.string() }), fc.json());
  const name = fc.oneof(
    fc.constantFrom("tool__one", "tool__two", "tool__a.b", "one", "tool__deep__er", "Tool.ONE"),
    fc.string(),
  );

  test("never make invoke() throw, and each call is recorded in the ledger", async () => {
    await fc.assert(
      fc.asyncProperty(tool, name, args, async (registration, asked, given) => {
        const qm = await createQuartermaster({ limits: { timeoutMs: 2_000 } });
        try {
          qm.register(registration as never);
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(QmError);
          expect((thrown as QmError).code).toBe("invalid_registration");
        }

        const outcome = await qm.invoke(asked, given);

        expectSound(outcome);
        const events = await qm.ledger.read({ callId: outcome.callId });
        expect(events.at(0)?.type).toBe("call.received");
        expect(events.at(-1)?.type).toBe("call.ended");
        expect((await qm.ledger.verify()).broken).toEqual([]);
        await qm.close();
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("200 hostile names", () => {
  const parts = [
    "",
    " ",
    "..",
    "/",
    "\\",
    "\0",
    "\u202e",
    "\u200b",
    "\n",
    "\x1b[2J",
    "__",
    "___",
    "%2e%2e",
    "'; drop table events; --",
    ["$", "{env:HOME}"].join(""),
    "{{7*7}}",
    "<script>",
    "__proto__",
    "constructor",
    "toString",
    "hasOwnProperty",
    "日本語",
    "e\u0301",
    "𝕗𝕚𝕝𝕖",
    "a".repeat(100_000),
  ];
  const names = parts.flatMap((part) => [
    part,
    `tool__${part}`,
    `${part}__one`,
    `tool__one${part}`,
    `tool${part}one`,
    part.repeat(3),
    `default_api.${part}`,
    `${part}.${part}`,
  ]);

  test(`${names.length} names resolve to the registered tool or fail with unknown_action`, async () => {
    const qm = await createQuartermaster();
    qm.register({ ...sound, name: "one", inputSchema: { type: "object" }, effect: "write" });
    expect(names.length).toBeGreaterThanOrEqual(200);

    for (const name of names) {
      const outcome = await qm.invoke(name, {});
      expectSound(outcome);
      if (outcome.status === "done") expect(outcome.action).toBe("tool__one");
      else expect(outcome).toMatchObject({ error: { code: "unknown_action" } });
      // The answer has no control characters that could rewrite a terminal or a log.
      expect(outcome.value).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    }
    expect((await qm.ledger.verify()).broken).toEqual([]);
    await qm.close();
  });
});

describe("200 hostile schemas", () => {
  const nestSchema = (depth: number, wrap: (inner: JsonSchema) => JsonSchema): JsonSchema => {
    let schema: JsonSchema = { type: "string" };
    for (let level = 0; level < depth; level++) schema = wrap(schema);
    return { type: "object", properties: { a: schema } };
  };
  const patterns = [
    "^(a+)+$",
    "(a|aa)+$",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(.*a){20}",
    "^(?=(a+)+$)a",
    "(?<!b)(a+)+$",
    "\\1(a)",
    "(",
    "[z-a]",
    "a{1000000}",
    "(a{1,100}){1,100}",
    "\\p{Nonsense}",
  ];
  const sizes = [10, 100, 1_000, 10_000];
  const keywords = [
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "items",
    "prefixItems",
    "contains",
    "propertyNames",
    "dependentSchemas",
    "unevaluatedProperties",
    "$defs",
  ];
  const junk = [null, 0, -1, 1e308, "x", [], {}, true];
  const schemas: unknown[] = [
    ...patterns.map((pattern) => ({ type: "object", properties: { a: { type: "string", pattern } } })),
    ...patterns.map((pattern) => ({ type: "object", patternProperties: { [pattern]: { type: "number" } } })),
    ...sizes.flatMap((size) => [
      nestSchema(size, (inner) => ({ type: "object", properties: { a: inner } })),
      nestSchema(size, (inner) => ({ anyOf: [inner, inner] })),
      nestSchema(Math.min(size, 14), (inner) => ({ allOf: [inner, inner] })),
      { type: "object", properties: Object.fromEntries(Array.from({ length: size }, (_, index) => [`p${index}`, {}])) },
      { type: "object", enum: Array.from({ length: size }, (_, index) => ({ index })) },
      { type: "object", properties: { a: { type: "array", uniqueItems: true, minItems: size } } },
    ]),
    ...keywords.flatMap((keyword) => junk.map((value) => ({ type: "object", [keyword]: value }))),
    ...[
      "#",
      "#/",
      "#/properties/a",
      "#/$defs/none",
      "http://example.com/s",
      "file:///etc/passwd",
      "//x",
      "urn:x",
      "javascript:alert(1)",
    ].flatMap(($ref) => [
      { type: "object", $ref },
      { type: "object", properties: { a: { $ref } } },
    ]),
    ...["$id", "$schema", "$anchor", "$dynamicRef", "$vocabulary"].flatMap((keyword) =>
      junk.map((value) => ({ type: "object", [keyword]: value })),
    ),
  ];
  const given: unknown[] = [
    {},
    { a: `${"a".repeat(60)}!` },
    { a: Array.from({ length: 5_000 }, (_, index) => ({ index })) },
    { [`${"a".repeat(60)}!`]: 1 },
  ];

  const quartermasters: Quartermaster[] = [];
  afterAll(() => Promise.all(quartermasters.map((qm) => qm.close())));

  test(`${schemas.length} schemas are rejected, or validate within limits`, async () => {
    const qm = await createQuartermaster();
    quartermasters.push(qm);
    expect(schemas.length).toBeGreaterThanOrEqual(200);

    for (const [index, inputSchema] of schemas.entries()) {
      try {
        qm.register({ ...sound, name: `t${index}`, inputSchema: inputSchema as JsonSchema });
      } catch (thrown) {
        expect((thrown as QmError).code).toBe("invalid_registration");
        continue;
      }
      for (const args of given) expectSound(await qm.invoke(`tool__t${index}`, args));
    }
  }, 120_000);
});
