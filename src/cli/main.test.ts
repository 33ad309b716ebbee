import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";

const main = new URL("./main.ts", import.meta.url);

test("loads no command before it is known which one runs", async () => {
  const loaded = [...(await listImports(main))];

  expect(loaded.filter((name) => /\/(?:commands|clients|completion|doctor)\//.test(name))).toEqual([]);
});

test("loads nothing for the help of all commands that only calls need", async () => {
  const commands = [...(await readFile(main, "utf8")).matchAll(/import\("([^"]+)"\)/g)].map(([, name = ""]) => name);

  const seen = await listImports(main);
  for (const name of commands) await listImports(new URL(name, main), seen);

  expect(commands.length).toBeGreaterThan(20);
  expect([...seen].filter((name) => !name.startsWith("file:") && !name.startsWith("node:"))).toEqual(["commander"]);
  expect([...seen].filter((name) => name.endsWith("/workspace.ts"))).toEqual([]);
  expect([...seen].filter((name) => /\/(?:mcp|replay|evals|approval)\//.test(name))).toEqual([]);
  expect(seen.size).toBeLessThan(90);
});

/** A file and everything it imports statically, without types. */
async function listImports(file: URL, seen = new Set<string>()): Promise<Set<string>> {
  seen.add(file.href);
  const text = await readFile(file, "utf8");
  for (const [, name = ""] of text.matchAll(/^(?:import|export)(?! type)[^;]*? from "([^"]+)";$/gm)) {
    const next = name.startsWith(".") ? new URL(name, file) : undefined;
    if (next === undefined) seen.add(name);
    else if (!seen.has(next.href)) await listImports(next, seen);
  }
  return seen;
}
