import { expect, test } from "vitest";
import { findResourceServer, findTemplateServer } from "./upstream.ts";

const resources = [
  { server: "b", resource: { uri: "file:///notes" } },
  { server: "a", resource: { uri: "file:///notes" } },
  { server: "c", resource: { uri: "db://one" } },
];
const templates = [{ server: "b", template: { uriTemplate: "file:///users/{id}/data" } }];

test.each([
  ["file:///notes", "a"],
  ["file:///users/7/data", "b"],
  ["db://two", "c"],
  ["file:///else", undefined],
  ["other://x", undefined],
  ["no scheme", undefined],
])("reads %s from %s", (uri, server) => {
  expect(findResourceServer(uri, resources, templates)).toBe(server);
});

test("matches a hostile template fast", () => {
  const hostile = [{ server: "h", template: { uriTemplate: `x://${"{a}".repeat(400)}!` } }];

  expect(findResourceServer(`x://${"a".repeat(20_000)}`, [], hostile)).toBe("h");
});

test("finds a template by its exact text", () => {
  expect(findTemplateServer("file:///users/{id}/data", templates)).toBe("b");
  expect(findTemplateServer("file:///users/7/data", templates)).toBeUndefined();
});
