import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { FolderWalker } from "./folder-walker.ts";
import { openFolder } from "./open-file.ts";
import { NO_PROTECTED_PATHS } from "./protected-paths.ts";
import { removeTestRoots, testRoot } from "./testing.ts";

afterEach(removeTestRoots);

async function walked(path: string, options: { maxVisited?: number; signal?: AbortSignal } = {}) {
  const folder = await openFolder(path, ".", NO_PROTECTED_PATHS);
  const walk = new FolderWalker(folder, {
    signal: new AbortController().signal,
    maxVisited: 1000,
    enter: () => true,
    ...options,
  });
  const paths: string[] = [];
  try {
    for await (const entry of walk.entries()) paths.push(`${entry.kind} ${entry.path}`);
  } finally {
    await folder.close();
  }
  return { paths, isIncomplete: walk.isIncomplete };
}

test("visits all entries in order of path", async () => {
  const { path } = await testRoot({
    "b.txt": "",
    "a/z.txt": "",
    "a/b/c.txt": "",
    "a.txt": "",
    "a-b": "",
    é: "",
    Z: "",
  });

  expect(await walked(path)).toEqual({
    paths: [
      "file Z",
      "file a-b",
      "file a.txt",
      "folder a",
      "folder a/b",
      "file a/b/c.txt",
      "file a/z.txt",
      "file b.txt",
      "file é",
    ],
    isIncomplete: false,
  });
});

test("does not follow links, so a cycle ends", async () => {
  const { path, outside } = await testRoot({ "folder/a.txt": "" });
  await symlink("..", join(path, "folder/up"));
  await symlink(outside, join(path, "out"));

  expect((await walked(path)).paths).toEqual(["folder folder", "file folder/a.txt", "link folder/up", "link out"]);
});

test("stops at its limit and reports it", async () => {
  const files = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`${index % 5}/${index}.txt`, ""]));
  const { path } = await testRoot(files);

  const { paths, isIncomplete } = await walked(path, { maxVisited: 20 });

  expect(isIncomplete).toBe(true);
  expect(paths).toHaveLength(20);
  expect((await walked(path, { maxVisited: 55 })).isIncomplete).toBe(false);
});

test("reports folders that are too deep", async () => {
  const { path } = await testRoot();
  await mkdir(join(path, "d/".repeat(80)), { recursive: true });

  const { paths, isIncomplete } = await walked(path);

  expect(isIncomplete).toBe(true);
  expect(paths.length).toBeLessThan(80);
});

test("stops when the call is cancelled", async () => {
  const { path } = await testRoot({ "a.txt": "" });

  await expect(walked(path, { signal: AbortSignal.abort() })).rejects.toThrow(/abort/i);
});

test("lets other work run between the entries of a large folder", async () => {
  const { path } = await testRoot(Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`${at}.txt`, ""])));
  const folder = await openFolder(path, ".", NO_PROTECTED_PATHS);
  const walk = new FolderWalker(folder, { signal: new AbortController().signal, maxVisited: 1000, enter: () => true });
  let turn = 0;
  const turns = new Set<number>();
  let next = setImmediate(function count() {
    turn++;
    next = setImmediate(count);
  });
  try {
    for await (const _ of walk.entries()) turns.add(turn);
  } finally {
    clearImmediate(next);
    await folder.close();
  }

  expect(turns.size).toBeGreaterThan(5);
});
