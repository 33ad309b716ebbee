import { mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { loadOrCreateToken } from "./profiles.ts";

let folder: string;
let path: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "qm-token-"));
  path = join(folder, "deep", "token");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

test("creates one private token for concurrent callers", async () => {
  const tokens = await Promise.all(Array.from({ length: 10 }, () => loadOrCreateToken(path)));

  expect(new Set(tokens).size).toBe(1);
  expect(tokens[0]).toMatch(/^[\w-]{43}$/);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect(await readdir(join(folder, "deep"))).toEqual(["token"]);
});

test("refuses a file without a token", async () => {
  await loadOrCreateToken(path);
  await writeFile(path, "short\n");

  await expect(loadOrCreateToken(path)).rejects.toMatchObject({ code: "store_failed" });
});
