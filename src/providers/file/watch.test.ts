import { link, mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { removeTestRoots, type TestRoot, testRoot } from "./testing.ts";

afterEach(removeTestRoots);

const watch = (root: TestRoot, args = {}) => root.call("watch", args);

test("tells what was created, changed and removed since a cursor", async () => {
  const root = await testRoot({ "a.txt": "one", "src/b.ts": "two", "src/c.ts": "three" });
  const first = await watch(root);

  await writeFile(join(root.path, "a.txt"), "longer");
  await writeFile(join(root.path, "new.txt"), "");
  await rm(join(root.path, "src/b.ts"));
  const second = await watch(root, { since: first.cursor });

  expect(first).toMatchObject({ changes: [], truncated: false });
  expect(second).toMatchObject({
    changes: [
      { path: "a.txt", change: "changed" },
      { path: "new.txt", change: "created" },
      { path: "src/b.ts", change: "removed" },
    ],
  });
  expect(await watch(root, { since: second.cursor })).toMatchObject({ changes: [] });
  // An earlier cursor still works.
  expect((await watch(root, { since: first.cursor })).changes).toHaveLength(3);
});

test("sees a file that was replaced by one of the same size", async () => {
  const root = await testRoot({ "a.txt": "one", "b.txt": "two" });
  const { cursor } = await watch(root);

  await rename(join(root.path, "b.txt"), join(root.path, "a.txt"));

  expect((await watch(root, { since: cursor })).changes).toEqual([
    { path: "a.txt", change: "changed" },
    { path: "b.txt", change: "removed" },
  ]);
});

test("waits for the first change", async () => {
  const root = await testRoot({ "a.txt": "one" });
  const { cursor } = await watch(root);

  const waiting = watch(root, { since: cursor, wait_ms: 60_000 });
  await writeFile(join(root.path, "b.txt"), "two");

  expect((await waiting).changes).toEqual([{ path: "b.txt", change: "created" }]);
});

test("ends without a change when the wait is over, and at once when it is cancelled", async () => {
  const root = await testRoot({ "a.txt": "one" });

  expect(await watch(root, { wait_ms: 1 })).toMatchObject({ changes: [] });
  await expect(root.call("watch", { wait_ms: 60_000 }, AbortSignal.timeout(20))).rejects.toThrow(/abort|timeout/i);
});

test("looks only at the files that match", async () => {
  const root = await testRoot({ "src/a.ts": "" });
  const paths = ["src/**/*.ts", "docs/*.md"];
  const { cursor } = await watch(root, { paths });

  await mkdir(join(root.path, "docs"));
  for (const name of ["src/a.js", "src/b.ts", "docs/c.md", "d.md"]) await writeFile(join(root.path, name), "");

  const { changes } = await watch(root, { paths, since: cursor });
  expect(changes).toEqual([
    { path: "docs/c.md", change: "created" },
    { path: "src/b.ts", change: "created" },
  ]);
  expect(await root.refusal("watch", { since: String(cursor) })).toMatchObject({ code: "invalid_arguments" });
});

test("reports the rest of many changes with the next cursor", async () => {
  const root = await testRoot();
  const { cursor } = await watch(root);
  for (const name of ["a", "b", "c"]) await writeFile(join(root.path, name), "");

  const first = await watch(root, { since: cursor, limit: 2 });
  const second = await watch(root, { since: first.cursor, limit: 2 });

  expect(first).toMatchObject({ changes: [{ path: "a" }, { path: "b" }], truncated: true });
  expect(second).toMatchObject({ changes: [{ path: "c" }], truncated: false });
});

test("says that a cursor is no longer known, and starts again", async () => {
  const root = await testRoot({ "a.txt": "" });
  const { cursor } = await watch(root);
  for (let call = 0; call < 20; call++) await watch(root);

  const answer = await watch(root, { since: cursor, wait_ms: 60_000 });

  expect(answer).toMatchObject({ changes: [], expired: true });
  expect(answer.cursor).not.toBe(cursor);
});

test("calls without a change do not push out the cursors of others", async () => {
  const root = await testRoot({ "a.txt": "" });
  const [first, other] = [await watch(root), await watch(root)];
  for (let call = 0; call < 20; call++)
    expect(await watch(root, { since: first.cursor })).toMatchObject({ cursor: first.cursor });

  expect(await watch(root, { since: other.cursor })).not.toHaveProperty("expired");
});

test("does not report files as created or removed because others fill the limit", async () => {
  const root = await testRoot({ "a/1": "", "b/1": "", "b/2": "" }, { maxVisited: 4 });
  const { cursor, incomplete } = await watch(root);
  // The new file takes the place of the one below b that was visited.
  await writeFile(join(root.path, "a/2"), "");

  const answer = await watch(root, { since: cursor });

  expect(incomplete).toBe(true);
  expect(answer).toMatchObject({ changes: [], incomplete: true });
});

test("never reports protected files, temporary files or what a link leads to", async () => {
  const root = await testRoot({ "secret.db": "x" }, { protectNames: ["secret.db"] });
  await symlink(root.outside, join(root.path, "out"));
  const { cursor } = await watch(root);

  await writeFile(join(root.path, "secret.db"), "changed");
  await writeFile(join(root.path, ".qm-tmp-0011223344556677"), "x");
  await writeFile(join(root.outside, "new.txt"), "x");
  await link(join(root.outside, "new.txt"), join(root.outside, "other.txt"));

  expect(await watch(root, { since: cursor })).toMatchObject({ changes: [] });
});
