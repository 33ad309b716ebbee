import { chmod, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemRuntime } from "../app/system-runtime.ts";
import { openSecretsFile } from "./secrets.ts";

let folder: string;
let path: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "qm-secrets-"));
  path = join(folder, "deep", "secrets.json");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

test("stores, returns, lists and deletes secrets in a file for its owner only", async () => {
  const secrets = openSecretsFile(path, systemRuntime);

  expect(await secrets.get("KEY")).toBeUndefined();
  await secrets.set("KEY", "s3cret\nwith lines");
  await secrets.set("__proto__", "odd");

  expect(await openSecretsFile(path, systemRuntime).get("KEY")).toBe("s3cret\nwith lines");
  expect(await secrets.get("__proto__")).toBe("odd");
  expect(await secrets.get("constructor")).toBeUndefined();
  expect(await secrets.names()).toEqual(["KEY", "__proto__"]);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect(await secrets.delete("KEY")).toBe(true);
  expect(await secrets.delete("KEY")).toBe(false);
  expect(await secrets.names()).toEqual(["__proto__"]);
});

test("loses no concurrent write", async () => {
  const names = Array.from({ length: 20 }, (_, index) => `NAME_${index}`);

  await Promise.all(names.map((name) => openSecretsFile(path, systemRuntime).set(name, name)));

  expect(await openSecretsFile(path, systemRuntime).names()).toEqual([...names].sort());
  expect(await readdir(join(folder, "deep"))).toEqual(["secrets.json"]);
});

test("takes over the lock of a dead process", async () => {
  const secrets = openSecretsFile(path, systemRuntime);
  await secrets.set("A", "1");
  await writeFile(`${path}.lock`, "");
  await utimes(`${path}.lock`, new Date(0), new Date(0));

  await secrets.set("B", "2");

  expect(await secrets.names()).toEqual(["A", "B"]);
});

test("neither reads nor overwrites a foreign file, and does not reveal its content", async () => {
  const secrets = openSecretsFile(path, systemRuntime);
  await secrets.set("A", "1");
  await writeFile(path, "hunter2 is no JSON");

  await expect(secrets.get("A")).rejects.toMatchObject({
    code: "store_failed",
    message: expect.not.stringContaining("hunter2"),
  });
  await expect(secrets.set("B", "2")).rejects.toMatchObject({ code: "store_failed" });
  expect(await readFile(path, "utf8")).toBe("hunter2 is no JSON");
});

test("removes the permissions of others when a secret is stored", async () => {
  const secrets = openSecretsFile(path, systemRuntime);
  await secrets.set("A", "1");
  await chmod(path, 0o644);

  await secrets.set("B", "2");

  expect((await stat(path)).mode & 0o777).toBe(0o600);
});
