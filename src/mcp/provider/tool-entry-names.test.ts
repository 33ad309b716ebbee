import { expect, test } from "vitest";
import { toToolEntry } from "./tool-actions.ts";

test("keeps the name of a tool if it is valid", () => {
  expect(toToolEntry("odd", "get-sum")).toBe("odd__get-sum");
  expect(toToolEntry("odd", "a.b:c@d+e~f")).toBe("odd__a.b:c@d+e~f");
});

test("gives tools with invalid names different entries", () => {
  const tools = [
    "a/b",
    "a b",
    "a_b",
    "a\tb",
    "a\u0000b",
    "",
    "x".repeat(300),
    `${"x".repeat(300)}y`,
    "e\u0301",
    "\u00e9",
  ];

  const entries = tools.map((tool) => toToolEntry("odd", tool));

  expect(new Set(entries).size).toBe(tools.length);
  for (const entry of entries) expect(entry).toMatch(/^odd__[\p{L}\p{N}\p{M}_.:/@+~-]{1,213}$/u);
});
