import { mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { loadOrCreateLinkKey } from "./approval-links.ts";

async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "qm-key-"));
  onTestFinished(() => rm(made, { recursive: true, force: true }));
  return made;
}

test("creates one private key for concurrent callers", async () => {
  const path = join(await folder(), "deep", "link-key");

  const keys = await Promise.all(Array.from({ length: 8 }, () => loadOrCreateLinkKey(path)));

  expect(new Set(keys.map((key) => key.toString("hex"))).size).toBe(1);
  expect(keys[0]).toHaveLength(32);
  expect(await loadOrCreateLinkKey(path)).toEqual(keys[0]);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect(await readdir(join(path, ".."))).toEqual(["link-key"]);
});

test.each(["", "short", "!".repeat(100)])("refuses %j as a key, and says what to do", async (content) => {
  const path = join(await folder(), "link-key");
  await writeFile(path, content);

  await expect(loadOrCreateLinkKey(path)).rejects.toMatchObject({
    code: "store_failed",
    hint: expect.stringContaining("Remove the file"),
  });
});
