import { expect, test } from "vitest";
import { defineAction } from "../catalog/define-action.ts";
import { takeSnapshot } from "../catalog/snapshot.ts";
import { createView } from "../catalog/view.ts";
import { formatPendingNote } from "./pending-note.ts";
import { estimateTokens } from "./search-results.ts";

/** A view with sources of these names, in which an action that asks them may be hidden. */
function createTestView(names: readonly string[], hidden: readonly string[] = []) {
  const define = (entry: string) =>
    defineAction("mcp", { entry, description: "x", effect: "read", input: { type: "object" }, run: () => null });
  const asking = define("list_tools");
  const actions = [asking, ...names.map((name) => define(`${name}__connect`))];
  const pending = names.map((name) => ({ name, prefix: `mcp__${name}__`, askedBy: asking.name }));
  const { snapshot } = takeSnapshot(1, [actions], pending);
  return createView(snapshot, ({ entry }) => ({ visible: !hidden.includes(entry), approval: "never" }));
}

test("names the sources and the action that asks them", () => {
  expect(formatPendingNote(createTestView(["github", "memory"]))).toBe(
    "Not known yet: github, memory. mcp__list_tools asks them.",
  );
  expect(formatPendingNote(createTestView([]))).toBeUndefined();
});

test("names no action and no source that the caller cannot see", () => {
  const view = createTestView(["github", "memory"], ["github__connect", "list_tools"]);

  expect(formatPendingNote(view)).toBe("Not known yet: memory.");
});

test("names only sources of the given categories", () => {
  const view = createTestView(["memory"]);

  expect(formatPendingNote(view, ["file"])).toBeUndefined();
  expect(formatPendingNote(view, ["file", "mcp"])).toContain("memory");
});

test("stays short with many long names", () => {
  const names = Array.from({ length: 30 }, (_, at) => `${"long-server-name-".repeat(2)}${at + 100}`);

  const note = formatPendingNote(createTestView(names)) ?? "";

  expect(note).toMatch(/and 27 more\. mcp__list_tools asks them\.$/);
  expect(note.length).toBeLessThan(240);
  expect(estimateTokens(note)).toBeLessThan(60);
});
