import { expect, test } from "vitest";
import { checkInvokeOptions, checkOptions, type InvokeOptions, invokeSchema } from "./options.ts";

class Text extends String {}

test.each([
  {},
  { caller: undefined },
  { caller: {} },
  { caller: { actor: "a", session: "s", turn: "t", person: "p", tenant: "x", client: "c" } },
  { caller: { actor: undefined } },
  { caller: { user: { id: "ann" }, hops: 1 } },
  { caller: { user: "ann" } },
  { caller: { actor: 1 } },
  { caller: { actor: new Text("a") } },
  { caller: { Actor: "a" } },
  { caller: JSON.parse('{ "__proto__": "a" }') },
  { caller: null },
  { caller: [] },
  { caller: "a" },
  { via: "mine", keep: false },
  { via: 1 },
  { timeoutMs: 0 },
  { signal: {} },
  { unknown: "x" },
  null,
  [],
  "text",
])("accepts and refuses %j as the schema does", (options) => {
  const given = options as InvokeOptions;
  const read = (check: () => unknown): string => {
    try {
      check();
      return "fits";
    } catch (thrown) {
      return String(thrown);
    }
  };

  expect(read(() => checkInvokeOptions(given))).toBe(read(() => checkOptions(invokeSchema, "options", given)));
});
