import { describe, expectTypeOf, test } from "vitest";
import { z } from "zod";
import type { ActionName } from "../core/names.ts";
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

test("a plain string is not an ActionName", () => {
  expectTypeOf<string>().not.toExtend<ActionName>();
});
