import { expect, test } from "vitest";
import type { Json } from "../core/json.ts";
import { parseJsonPath } from "./json-path.ts";
import { findLargePart } from "./large-part.ts";
import { splitItems } from "./primitives/split.ts";
import { readAll } from "./primitives/testing.ts";
import { formatNextStep } from "./store-value.ts";

const records = Array.from({ length: 50 }, (_, id) => ({ id, title: `title ${id}` }));
const text = JSON.stringify(records);

test.each<[string, Json, string | undefined, number]>([
  ["a list", { few: [1], "all items": records }, '["all items"]', 50],
  ["a JSON list in a text", { path: "/a", content: text }, "content", 50],
  ["JSON lines in a text", { content: records.map((each) => JSON.stringify(each)).join("\n") }, "content", 50],
  ["a JSON object in a text", { content: JSON.stringify({ next: null, records }) }, "content", 50],
  ["lines", { content: "one line\n".repeat(90) }, "content", 90],
  ["a JSON object without a list", { content: JSON.stringify({ a: "b".repeat(900) }) }, undefined, 0],
  ["one long text", { content: "word ".repeat(500) }, undefined, 0],
])("suggests a working call that makes a collection of %s", async (_, content, path, count) => {
  const large = findLargePart(content);
  const told = formatNextStep({ handle: "note__1", kind: "note", format: "json", large }, () => true, 2_000);

  const call = JSON.stringify({ target: "note__1", path });
  if (path === undefined) expect(told).not.toContain("split");
  else expect(told).toContain(`Make a collection of it with infospace__split ${call}. Read it with`);
  if (path === undefined) return;
  const { contents } = await readAll(splitItems([{ content }], { path: parseJsonPath(path), delimiter: "" }));
  expect(contents).toHaveLength(count);
});

test("suggests it without a path for a whole list, and only if the action is visible", () => {
  const large = { path: "", steps: [], what: "array of 2 strings", isMany: true };
  const next = { handle: "note__1", kind: "note", format: "json", large } as const;

  expect(formatNextStep(next, () => true, 2_000)).toContain('infospace__split {"target":"note__1"}.');
  expect(formatNextStep(next, (name) => !name.endsWith("split"), 2_000)).not.toContain("collection");
});
