import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";

test("starting loads nothing that only calls need", async () => {
  const seen = await loadedBy(new URL("./main.ts", import.meta.url));

  expect([...seen].filter((name) => !name.startsWith("file:") && !name.startsWith("node:"))).toEqual(["commander"]);
  expect([...seen].filter((name) => name.endsWith("/workspace.ts"))).toEqual([]);
  expect(seen.size).toBeLessThan(85);
});

/** A file and everything it imports at once: not types, and not what is imported when it is needed. */
async function loadedBy(file: URL, seen = new Set<string>()): Promise<Set<string>> {
  seen.add(file.href);
  const text = await readFile(file, "utf8");
  for (const [, name = ""] of text.matchAll(/^(?:import|export)(?! type)[^;]*? from "([^"]+)";$/gm)) {
    const next = name.startsWith(".") ? new URL(name, file) : undefined;
    if (next === undefined) seen.add(name);
    else if (!seen.has(next.href)) await loadedBy(next, seen);
  }
  return seen;
}
