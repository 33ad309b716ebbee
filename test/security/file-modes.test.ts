import { chmod, mkdir, readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { cleanUp, createTestFolder, qm } from "../../src/cli/testing.ts";
import { backUpFile } from "../../src/files/safe-files.ts";
import { loadOrCreateLinkKey } from "../../src/http/approval-links.ts";
import { loadOrCreateToken } from "../../src/mcp/gateway/profiles.ts";
import { removeTestRoots, testRoot } from "../../src/providers/file/testing.ts";

afterEach(cleanUp);
afterEach(removeTestRoots);

const readMode = async (path: string) => (await stat(path)).mode & 0o7777;

describe.skipIf(process.platform === "win32")("a file with special permission bits", () => {
  test.each([0o4755, 0o2755, 0o1755, 0o7777])("loses them when file__write replaces it (mode %o)", async (mode) => {
    const { path, call } = await testRoot({ "run.sh": "echo old\n" });
    await chmod(join(path, "run.sh"), mode);

    await call("write", { path: "run.sh", content: "echo new\n" });

    expect(await readMode(join(path, "run.sh"))).toBe(mode & 0o777);
  });

  test("loses them when file__edit changes it", async () => {
    const { path, call } = await testRoot({ "run.sh": "echo old\n" });
    await chmod(join(path, "run.sh"), 0o6755);

    await call("edit", { path: "run.sh", old_string: "old", new_string: "new" });

    expect(await readMode(join(path, "run.sh"))).toBe(0o755);
  });

  test("gets a backup without them", async () => {
    const folder = await createTestFolder({ "quartermaster.yaml": "{}\n" });
    const path = join(folder, "quartermaster.yaml");
    await chmod(path, 0o6640);

    expect(await readMode(await backUpFile(path, new Date(0)))).toBe(0o640);
  });
});

describe.skipIf(process.platform === "win32")("the folder .quartermaster", () => {
  async function* typeValue(): AsyncGenerator<string> {
    yield "a-value-that-nobody-guesses\n";
  }

  test.each<[string, (folder: string) => Promise<unknown>]>([
    ["qm secrets set", (folder) => qm(folder, ["secrets", "set", "KEY"], { stdin: typeValue() })],
    ["the first call", (folder) => qm(folder, ["invoke", "file__list"])],
    ["the gateway's token", (folder) => loadOrCreateToken(join(folder, ".quartermaster", "token"))],
    ["the key for approval links", (folder) => loadOrCreateLinkKey(join(folder, ".quartermaster", "link-key"))],
  ])("is closed to others when %s creates it", async (_what, create) => {
    const folder = await createTestFolder({ "quartermaster.yaml": "policy: {}\n" });

    await create(folder);

    expect(await readdir(join(folder, ".quartermaster"))).not.toEqual([]);
    expect(await readMode(join(folder, ".quartermaster"))).toBe(0o700);
  });

  test("is closed to others when it exists already", async () => {
    const folder = await createTestFolder({ "quartermaster.yaml": "policy: {}\n" });
    await mkdir(join(folder, ".quartermaster"), { mode: 0o755 });
    await chmod(join(folder, ".quartermaster"), 0o755);

    await qm(folder, ["secrets", "set", "KEY"], { stdin: typeValue() });

    expect(await readMode(join(folder, ".quartermaster"))).toBe(0o700);
  });

  test("is the only existing folder whose mode changes", async () => {
    const folder = await createTestFolder({ "quartermaster.yaml": "store: { path: shared/qm.db }\n" });
    await mkdir(join(folder, "shared"));
    await chmod(join(folder, "shared"), 0o755);
    await writeFile(join(folder, "a.txt"), "a");

    await qm(folder, ["secrets", "set", "KEY"], { stdin: typeValue() });

    expect(await readMode(join(folder, "shared"))).toBe(0o755);
  });
});
