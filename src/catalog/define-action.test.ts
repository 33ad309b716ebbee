import { expect, test, vi } from "vitest";
import { z } from "zod";
import { defineAction as defineForHost } from "../index.ts";
import { createCatalog } from "./catalog.ts";
import { defineAction, extendAction, isUnreadSchema } from "./define-action.ts";

const echo = { entry: "echo", description: "Says it again.", effect: "read", run: () => "x" } as const;
const unconvertible = z.object({ at: z.date() });

test("converts a schema of our own when it is first read", () => {
  const build = vi.fn(() => z.strictObject({ text: z.string() }));
  const action = defineAction("test", { ...echo, input: z.lazy(build), output: z.object({}) });
  const catalog = createCatalog({ providers: [{ category: "test", capability: "Test.", list: () => [action] }] });
  const [listed = action] = catalog.snapshot().actions;
  const extended = extendAction(listed, { keepsTokens: true });

  expect(extended).toMatchObject({ name: "test__echo", keepsTokens: true });
  expect(build).not.toHaveBeenCalled();
  expect(isUnreadSchema(extended, "inputSchema")).toBe(true);

  expect(extended.inputSchema).toMatchObject({ type: "object", properties: { text: { type: "string" } } });
  expect(extended.inputSchema).toBe(action.inputSchema);
  expect(Object.isFrozen(action.inputSchema)).toBe(true);
  expect(isUnreadSchema(action, "inputSchema")).toBe(false);
  expect(isUnreadSchema(action, "outputSchema")).toBe(true);
});

test("refuses a schema of a host that cannot be converted where it is declared", () => {
  const message = "the zod schema has no JSON Schema form";

  expect(() => defineForHost("test", { ...echo, input: unconvertible })).toThrow(message);
  expect(() => defineForHost("test", { ...echo, input: z.object({}), output: unconvertible })).toThrow(message);
});

test("leaves out an action of a host whose schema is unsafe", () => {
  const onProblem = vi.fn();
  const action = defineForHost("test", { ...echo, input: z.string() });
  createCatalog({ providers: [{ category: "test", capability: "Test.", list: () => [action] }], onProblem });

  expect(onProblem).toHaveBeenCalledWith("test", expect.stringContaining('the schema has type "string"'));
});
