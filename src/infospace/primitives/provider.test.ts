import { describe, expect, test } from "vitest";
import { getValidator } from "../../core/schema-validator.ts";
import { countToolTokens, loadTokenCounter } from "../../surface/open-surface.ts";
import type { MapPrimitiveOptions } from "./map.ts";
import { createInfospaceProvider } from "./provider.ts";

const unused = undefined as never;
const parts: MapPrimitiveOptions = {
  infospace: unused,
  search: unused,
  previewLimit: 1_000,
  valueLimit: 4_096,
  elapsed: () => 0,
};
const actions = await createInfospaceProvider(parts).list();

describe.each(actions.map((action) => [action.entry, action] as const))("%s", (_, action) => {
  const { inputSchema, examples, handleArguments = [] } = action;
  const problems = (args: object) => getValidator(inputSchema, "arguments")(structuredClone(args), 1_000);

  test("has valid examples", () => {
    expect(examples.length).toBeGreaterThan(0);
    for (const { args } of examples) expect(problems(args)).toEqual([]);
  });

  test("rejects an unknown argument by name", () => {
    const [{ message } = { message: "" }] = problems({ ...examples[0]?.args, descending: true });

    expect(message).toContain('"descending"');
  });

  test("declares its target as a handle argument", () => {
    const named = Object.keys(inputSchema.properties as object).filter((name) => name === "target" || name === "with");

    expect(handleArguments).toEqual(expect.arrayContaining(named));
  });
});

test("has all actions on notes and collections, under their usual names", () => {
  const storage = ["save", "load", "create-note", "create-collection"];
  const computation = ["apply", "map", "coerce"];
  const searching = ["index", "search-notes", "search-collections", "search-within-collection"];
  const structured = ["project", "pluck", "filter-structured", "sort", "join"];
  const names = [...storage, ...computation, ...searching, ...structured, "say", "think"];

  expect(actions.map(({ name }) => name)).toEqual(expect.arrayContaining(names.map((name) => `infospace__${name}`)));
});

test("the schemas together stay within a token budget", async () => {
  const count = await loadTokenCounter();
  const total = actions.reduce((sum, action) => sum + countToolTokens(action, count), 0);

  expect(actions.map(({ entry }) => entry)).toContain("aggregate");
  expect(total).toBeLessThan(4_200);
});
