import { expect, test } from "vitest";
import type { JsonObject } from "../../core/json.ts";
import type { OfferedTool } from "./offer.ts";
import { hashDefinition } from "./offer.ts";

const tool: OfferedTool = {
  name: "read",
  title: "Read",
  description: "Reads a file.",
  inputSchema: { type: "object", properties: { path: { type: "string" }, limit: { type: "number" } } },
  outputSchema: { type: "object" },
  annotations: { readOnlyHint: true, title: "Read" },
};

test("does not depend on the order of keys, at any depth", () => {
  const turned: OfferedTool = {
    annotations: { title: "Read", readOnlyHint: true },
    outputSchema: { type: "object" },
    inputSchema: { properties: { limit: { type: "number" }, path: { type: "string" } }, type: "object" },
    description: "Reads a file.",
    title: "Read",
    name: "read",
  };

  expect(hashDefinition(turned)).toBe(hashDefinition(tool));
});

test("does not depend on icons, _meta or unknown fields", () => {
  const more = { ...tool, icons: [{ src: "data:," }], _meta: { "x/y": 1 }, execution: { taskSupport: "optional" } };

  expect(hashDefinition(more)).toBe(hashDefinition(tool));
});

test.each<[string, JsonObject]>([
  ["the name", { name: "Read" }],
  ["the title", { title: "read" }],
  ["a text", { description: "Reads a file!" }],
  ["a character that nobody sees", { description: "Reads a\u200b file." }],
  ["another form of the same letter", { description: "Reads a \ufb01le." }],
  ["a missing text", { description: "" }],
  ["the input", { inputSchema: { type: "object", properties: { path: { type: "string" } } } }],
  ["the output", { outputSchema: { type: "object", properties: {} } }],
  ["the order of a list", { inputSchema: { ...tool.inputSchema, required: ["path"] } }],
  ["an annotation", { annotations: { readOnlyHint: false, title: "Read" } }],
])("depends on %s", (_what, change) => {
  expect(hashDefinition({ ...tool, ...change })).not.toBe(hashDefinition(tool));
});
