import { execFileSync } from "node:child_process";
import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { removeTestRoots, testRoot } from "./testing.ts";

afterEach(removeTestRoots);

test("lists one level, each entry with its kind, files with their size", async () => {
  const { call, path } = await testRoot({ "b.txt": "12345", "src/main.ts": "", ".hidden": "" });
  await symlink("b.txt", join(path, "link"));
  execFileSync("mkfifo", [join(path, "pipe")]);

  expect(await call("list", {})).toEqual({
    path: ".",
    entries: [
      { path: ".hidden", kind: "file", bytes: 0 },
      { path: "b.txt", kind: "file", bytes: 5 },
      { path: "link", kind: "link" },
      { path: "pipe", kind: "other" },
      { path: "src", kind: "folder" },
    ],
    total: 5,
    truncated: false,
  });
});

test("lists to the requested depth, but not .git and node_modules", async () => {
  const { call } = await testRoot({ "src/a/b/c.ts": "", ".git/config": "", "node_modules/x/y.js": "" });

  const { entries } = await call("list", { depth: 3 });
  const inside = await call("list", { path: "node_modules", depth: 2 });

  expect(paths(entries)).toEqual([".git", "node_modules", "src", "src/a", "src/a/b"]);
  expect(paths(inside.entries)).toEqual(["node_modules/x", "node_modules/x/y.js"]);
});

test("counts entries beyond the limit", async () => {
  const files = Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`f${index}`, ""]));
  const { call } = await testRoot(files);

  const answer = await call("list", { limit: 10 });

  expect(paths(answer.entries)).toHaveLength(10);
  expect(answer).toMatchObject({ total: 30, truncated: true });
});

test("a file cannot be listed and a missing folder is not found", async () => {
  const { refusal } = await testRoot({ "source/a.txt": "" });

  expect((await refusal("list", { path: "source/a.txt" })).message).toBe('"source/a.txt" is a file, not a folder');
  expect(await refusal("list", { path: "sources" })).toMatchObject({
    code: "not_found",
    details: { suggestions: ["source"] },
  });
});

function paths(entries: unknown): string[] {
  return (entries as { path: string }[]).map(({ path }) => path);
}
