import { describe, expectTypeOf, test } from "vitest";
import { z } from "zod";
import { Streamed, WithContent } from "../core/handler-result.ts";
import type { ActionName } from "../core/names.ts";
import { AnnotatedRecord } from "../distribution/annotated-record.ts";
import { createToolRegistry } from "./tool-registry.ts";

const { register } = createToolRegistry();
const common = {
  name: "x",
  description: "Does x.",
  inputSchema: { type: "object" },
  handler: () => null,
  effect: "read",
} as const;

describe("illegal combinations do not compile", () => {
  test("three pairs do", () => {
    expectTypeOf(register({ ...common, scope: "generalist" })).toEqualTypeOf<ActionName>();
    register({ ...common, scope: "specialist", justification: "why" });
    register({
      ...common,
      scope: "specialist",
      routing: "bypass",
      bypassRouting: { reason: "why" },
      justification: "why",
    });
  });

  test("the rest do not", () => {
    // @ts-expect-error a generalist always routes
    register({ ...common, scope: "generalist", routing: "bypass", bypassRouting: { reason: "why" } });
    // @ts-expect-error a specialist needs a justification
    register({ ...common, scope: "specialist" });
    // @ts-expect-error bypass needs its reason
    register({ ...common, scope: "specialist", routing: "bypass", justification: "why" });
    // @ts-expect-error a reason without bypass
    register({ ...common, scope: "specialist", justification: "why", bypassRouting: { reason: "why" } });
    // @ts-expect-error a specialist is private
    register({ ...common, scope: "specialist", justification: "why", peerExposed: true });
    // @ts-expect-error no such effect
    register({ ...common, scope: "generalist", effect: "harmless" });
    const { effect: _effect, ...without } = common;
    // @ts-expect-error the effect is stated
    register({ ...without, scope: "generalist" });
    // @ts-expect-error the scope is stated
    register(common);
  });
});

test("a handler's arguments are what its schema says", () => {
  register({
    ...common,
    scope: "generalist",
    inputSchema: z.object({ id: z.string(), limit: z.number().default(10) }),
    handler: (args) => {
      expectTypeOf(args).toEqualTypeOf<{ id: string; limit: number }>();
      return null;
    },
  });
});

describe("a handler's result is what its output schema says", () => {
  const typed = {
    ...common,
    scope: "generalist",
    outputSchema: z.object({ city: z.string(), degrees: z.number().default(0) }),
  } as const;

  test("as a value or a promise, before the schema's defaults and transforms", () => {
    register({ ...typed, handler: () => ({ city: "Lisbon" }) });
    register({ ...typed, handler: async () => ({ city: "Lisbon", degrees: 21 }) });
  });

  test("with content, annotations, or as a stream", () => {
    register({ ...typed, handler: () => new WithContent({}, { blocks: [] }) });
    register({ ...typed, handler: () => new AnnotatedRecord({ city: "Lisbon" }, {}) });
    register({ ...typed, handler: () => Streamed.records([]) });
  });

  test("another result does not compile", () => {
    // @ts-expect-error the city is missing
    register({ ...typed, handler: () => ({ degrees: 21 }) });
    // @ts-expect-error degrees is a number
    register({ ...typed, handler: async () => ({ city: "Lisbon", degrees: "21" }) });
    // @ts-expect-error the annotated record lacks the city
    register({ ...typed, handler: () => new AnnotatedRecord({ degrees: 21 }, {}) });
  });

  test("JSON Schema and no schema allow anything", () => {
    register({ ...typed, outputSchema: { type: "object" }, handler: () => 7 });
    register({ ...common, scope: "generalist", handler: () => 7 });
  });
});

test("a plain string is not an ActionName", () => {
  expectTypeOf<string>().not.toExtend<ActionName>();
});
