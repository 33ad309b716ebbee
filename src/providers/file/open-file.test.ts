import { execFileSync, spawn } from "node:child_process";
import { mkdir, readdir, readFile, rename, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, onTestFinished, test } from "vitest";
import { QmError } from "../../core/errors.ts";
import { openEntry, openFolder } from "./open-file.ts";
import { NO_PROTECTED_PATHS } from "./protected-paths.ts";
import { removeTestRoots, testRoot } from "./testing.ts";

afterEach(removeTestRoots);

test("does not open a folder that a link has replaced", async () => {
  const { path, outside } = await testRoot();
  await symlink(outside, join(path, "folder"));

  await expect(openFolder(join(path, "folder"), "folder", NO_PROTECTED_PATHS)).rejects.toThrow(QmError);
});

test("does not open a folder if a link has replaced a parent", async () => {
  const { path, outside } = await testRoot();
  await mkdir(join(outside, "inner"));
  await symlink(outside, join(path, "folder"));

  await expect(openFolder(join(path, "folder", "inner"), "folder/inner", NO_PROTECTED_PATHS)).rejects.toThrow(
    /was changed while/,
  );
});

test.runIf(process.platform === "linux")("stays the same folder if a link replaces its path", async () => {
  const { path, outside } = await testRoot({ "folder/secret.txt": "mine" });
  const folder = await openFolder(join(path, "folder"), "folder", NO_PROTECTED_PATHS);

  await rename(join(path, "folder"), join(path, "moved"));
  await symlink(outside, join(path, "folder"));
  const { handle } = await openEntry(folder, "secret.txt", "folder/secret.txt");
  const content = await handle.readFile("utf8");
  await handle.close();
  await folder.close();

  expect(content).toBe("mine");
});

test("does not wait for a pipe that replaced a file", async () => {
  const { path } = await testRoot();
  execFileSync("mkfifo", [join(path, "pipe")]);
  const folder = await openFolder(path, ".", NO_PROTECTED_PATHS);

  await expect(openEntry(folder, "pipe", "pipe")).rejects.toMatchObject({ code: "path_refused" });

  await folder.close();
});

test("does not open an entry that is a link", async () => {
  const { path, outside } = await testRoot();
  await symlink(join(outside, "secret.txt"), join(path, "link"));
  const folder = await openFolder(path, ".", NO_PROTECTED_PATHS);

  await expect(openEntry(folder, "link", "link")).rejects.toMatchObject({ code: "path_refused" });

  await folder.close();
});

test.runIf(process.platform === "linux")(
  "nothing gets out while a folder is swapped for a link again and again",
  async () => {
    const { path, outside, call } = await testRoot({ "folder/secret.txt": "mine" });
    const swapper = spawn(process.execPath, ["-e", SWAPPER, join(path, "folder"), outside], { stdio: "ignore" });
    const seen = { read: 0, refused: 0 };

    const exited = new Promise((resolve) => swapper.once("exit", resolve));
    onTestFinished(() => void swapper.kill("SIGKILL"));
    const end = Date.now() + 1500;
    for (let round = 0; Date.now() < end; round++) {
      const answers = await Promise.allSettled([
        call("read", { path: "folder/secret.txt" }),
        call("grep", { pattern: ".", path: "folder" }),
        call("write", { path: `folder/new-${round % 5}.txt`, content: "written", create_parents: false }),
        call("edit", { path: "folder/secret.txt", old_string: "mine", new_string: "mine\n" }).then(() =>
          call("write", { path: "folder/secret.txt", content: "mine", create_parents: false }),
        ),
        call("delete", { path: "folder/new-0.txt" }),
      ]);
      for (const answer of answers) {
        if (answer.status === "fulfilled") expect(JSON.stringify(answer.value)).not.toContain("SECRET");
        else expect(answer.reason).toBeInstanceOf(QmError);
      }
      if (answers[0].status === "fulfilled") seen.read++;
      else seen.refused++;
    }
    expect(swapper.exitCode).toBeNull();
    swapper.kill("SIGKILL");
    await exited;

    expect(seen).toEqual({ read: expect.any(Number), refused: expect.any(Number) });
    expect(Math.min(seen.read, seen.refused)).toBeGreaterThan(0);
    expect(await readdir(outside)).toEqual(["secret.txt"]);
    expect(await readFile(join(outside, "secret.txt"), "utf8")).toBe("SECRET");
    await rm(path, { recursive: true });
  },
);

const SWAPPER = `
  const { renameSync, symlinkSync, unlinkSync } = require("node:fs");
  const [, folder, outside] = process.argv;
  const pause = () => { const end = performance.now() + Math.random(); while (performance.now() < end); };
  for (;;) {
    renameSync(folder, folder + ".real");
    symlinkSync(outside, folder);
    pause();
    unlinkSync(folder);
    renameSync(folder + ".real", folder);
    pause();
  }
`;
