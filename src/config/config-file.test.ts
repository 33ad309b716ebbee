import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { findConfig, loadConfig } from "./config-file.ts";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "qm-config-"));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

async function write(path: string, content: string | Uint8Array): Promise<string> {
  const file = join(folder, path);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, content);
  return file;
}

describe("findConfig", () => {
  test("finds the nearest file in the folders above", async () => {
    const outer = await write("quartermaster.yaml", "");
    const inner = await write("a/b/quartermaster.yaml", "");
    await mkdir(join(folder, "a/b/c/d"), { recursive: true });

    expect(await findConfig(join(folder, "a/b/c/d"))).toBe(inner);
    expect(await findConfig(join(folder, "a/b"))).toBe(inner);
    expect(await findConfig(join(folder, "a"))).toBe(outer);
  });

  test("finds no file, and ignores a folder of that name", async () => {
    await mkdir(join(folder, "quartermaster.yaml"));

    expect(await findConfig(folder)).toBeUndefined();
    expect(await findConfig(join(folder, "not/there"))).toBeUndefined();
  });
});

describe("loadConfig", () => {
  test("loads the file it finds", async () => {
    const path = await write("quartermaster.yaml", "limits: { queue: 7 }");

    const loaded = await loadConfig(undefined, { cwd: folder });

    expect(loaded).toMatchObject({ path, folder, config: { limits: { queue: 7, concurrency: 32 } } });
  });

  test("has the defaults and no path without a file", async () => {
    const loaded = await loadConfig(undefined, { cwd: folder });

    expect(loaded).toMatchObject({ folder, config: { limits: { queue: 256 } } });
    expect(loaded).not.toHaveProperty("path");
  });

  test("resolves a given path from cwd", async () => {
    const path = await write("etc/other.yaml", "limits: { queue: 7 }");

    const loaded = await loadConfig("etc/other.yaml", { cwd: folder });

    expect(loaded).toMatchObject({ path, folder: join(folder, "etc") });
  });

  test("reads with the given function", async () => {
    const readFile = async () => Buffer.from("limits: { queue: 9 }");

    const loaded = await loadConfig("q.yaml", { cwd: "/nowhere", readFile });

    expect(loaded).toMatchObject({ path: "/nowhere/q.yaml", config: { limits: { queue: 9 } } });
  });

  const refusals: Record<string, [make: () => Promise<unknown>, message: string]> = {
    "a given file that is not there": [async () => {}, "cannot be read: there is no such file"],
    "a folder": [() => mkdir(join(folder, "q.yaml")), "is not a file"],
    "a link that leads nowhere": [() => symlink("nope", join(folder, "q.yaml")), "there is no such file"],
    "a link to itself": [() => symlink("q.yaml", join(folder, "q.yaml")), "cannot be read: ELOOP"],
    "a device": [() => symlink("/dev/zero", join(folder, "q.yaml")), "is not a file"],
    "a large file": [() => write("q.yaml", "#".repeat(1_000_001)), "larger than 1000000 bytes"],
    "what is not UTF-8": [() => write("q.yaml", Buffer.from([0xff, 0xfe, 0x61, 0])), "not UTF-8 text"],
  };

  test.each(Object.entries(refusals))("refuses %s", async (_what, [make, message]) => {
    await make();

    await expect(loadConfig("q.yaml", { cwd: folder })).rejects.toMatchObject({
      code: "invalid_config",
      message: expect.stringContaining(message),
    });
    await expect(loadConfig("q.yaml", { cwd: folder })).rejects.toThrow(join(folder, "q.yaml"));
  });

  test("fails for a broken link instead of using the defaults", async () => {
    await symlink("gone.yaml", join(folder, "quartermaster.yaml"));

    await expect(loadConfig(undefined, { cwd: folder })).rejects.toMatchObject({ code: "invalid_config" });
  });
});
