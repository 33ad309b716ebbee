import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { withFileLock } from "./lock-file.ts";

let folder: string;
let path: string;
let ids = 0;
const options = { now: () => new Date(), newId: () => `id${++ids}` };

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "qm-lock-"));
  path = join(folder, "lock");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

async function mostAtOnce(workers: number): Promise<number> {
  let now = 0;
  let most = 0;
  const work = async () => {
    most = Math.max(most, ++now);
    await new Promise((resolve) => setImmediate(resolve));
    now--;
  };
  await Promise.all(Array.from({ length: workers }, () => withFileLock(path, options, work)));
  return most;
}

test("runs one piece of work at a time and leaves no file", async () => {
  expect(await mostAtOnce(10)).toBe(1);
  expect(await readdir(folder)).toEqual([]);
});

test("one process at a time takes over the lock of a dead one", async () => {
  await writeFile(path, "somebody");
  await utimes(path, new Date(0), new Date(0));

  expect(await mostAtOnce(10)).toBe(1);
  expect(await readdir(folder)).toEqual([]);
});

test("releases the lock when the work fails", async () => {
  const failing = withFileLock(path, options, () => Promise.reject(new Error("no")));

  await expect(failing).rejects.toThrow("no");
  expect(await withFileLock(path, options, async () => "yes")).toBe("yes");
});

test("a process that lost the lock does not remove the new one", async () => {
  await withFileLock(path, options, () => writeFile(path, "another's"));

  expect(await readdir(folder)).toEqual(["lock"]);
});

test("does not remove a lock that another process has just taken over", async () => {
  await writeFile(path, "somebody");
  await utimes(path, new Date(0), new Date(0));
  const work = vi.fn(async () => {});
  // Called after the lock was found stale, just before it is moved aside.
  const newId = vi.fn(() => {
    if (newId.mock.calls.length === 2) {
      rmSync(path);
      writeFileSync(path, "another's");
    }
    return `id${++ids}`;
  });

  const waiting = withFileLock(path, { ...options, newId }, work);
  await vi.waitFor(() => expect([newId.mock.calls.length, readFileSync(path, "utf8")]).toEqual([2, "another's"]));
  expect(work).not.toHaveBeenCalled();

  rmSync(path);
  await waiting;
  expect(work).toHaveBeenCalledTimes(1);
});
