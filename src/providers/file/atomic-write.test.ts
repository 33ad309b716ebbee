import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, readFile, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { findCompiled } from "../../../test/support/compiled.ts";
import { replaceFileContent } from "./atomic-write.ts";
import { isTemporaryName } from "./file-root.ts";
import { openFolder } from "./open-file.ts";
import { NO_PROTECTED_PATHS } from "./protected-paths.ts";
import { removeTestRoots, testRoot } from "./testing.ts";

afterEach(removeTestRoots);

const signal = new AbortController().signal;
const library = findCompiled("src/index.ts");

test("leaves nothing beside a file that cannot be replaced", async () => {
  const { path } = await testRoot();
  await mkdir(join(path, "target"));
  const folder = await openFolder(path, ".", NO_PROTECTED_PATHS);

  const replacement = { bytes: Buffer.from("new"), before: undefined, onlyIfUnchanged: false, shown: "target" };
  await expect(replaceFileContent(folder, "target", replacement, signal)).rejects.toMatchObject({ code: "conflict" });
  await folder.close();

  expect(await readdir(path)).toEqual(["target"]);
});

test("does not overwrite a file that another program changed", async () => {
  const { path } = await testRoot({ "a.txt": "old" });
  const before = await stat(join(path, "a.txt"));
  await utimes(join(path, "a.txt"), 1, 1);
  const folder = await openFolder(path, ".", NO_PROTECTED_PATHS);

  const replacement = { bytes: Buffer.from("new"), before, onlyIfUnchanged: true, shown: "a.txt" };
  await expect(replaceFileContent(folder, "a.txt", replacement, signal)).rejects.toMatchObject({ code: "conflict" });
  await folder.close();

  expect(await readdir(path)).toEqual(["a.txt"]);
  expect(await readFile(join(path, "a.txt"), "utf8")).toBe("old");
});

test("a process killed during a write leaves the old or the new content", async () => {
  const killed = await Promise.all(
    [40, 90, 150, 230].map(async (delay) => {
      const { path, call } = await testRoot({ "folder/a.txt": "x".repeat(1_000_000) });
      const child = spawn(process.execPath, ["--input-type=module", "-e", writerScript, library, path]);
      const exited = once(child, "exit");
      await once(child.stdout, "data");
      await new Promise((resolve) => setTimeout(resolve, delay));
      child.kill("SIGKILL");
      await exited;
      return { path, call };
    }),
  );

  for (const { path, call } of killed) {
    expect(await readFile(join(path, "folder/a.txt"), "utf8")).toMatch(/^(?:a{1000000}|b{1000000})$/);
    await writeFile(join(path, "folder/.qm-tmp-0000000000000000"), "left behind");
    expect((await readdir(join(path, "folder"))).some(isTemporaryName)).toBe(true);

    expect(await call("list", { path: "folder" })).toMatchObject({ total: 1 });
    expect(await call("glob", { pattern: "**" })).toMatchObject({ paths: ["folder/a.txt"] });
    expect(await call("grep", { pattern: "left" })).toMatchObject({ matches: [] });
    expect(await call("write", { path: "folder/a.txt", content: "later" })).toMatchObject({ created: false });
    await call("delete", { path: "folder/a.txt" });
    expect(await call("delete", { path: "folder" })).toEqual({ path: "folder", kind: "folder" });
  }
});

const writerScript = `
  const { fileProvider } = await import(process.argv[1]);
  const write = (await fileProvider({ root: process.argv[2] }).list()).find(({ entry }) => entry === "write");
  const context = { caller: { actor: "a", session: "s" }, callId: "c", signal: new AbortController().signal };
  for (let round = 0; ; round++) {
    await write.run({ path: "folder/a.txt", content: (round % 2 ? "a" : "b").repeat(1_000_000), create_parents: true }, context);
    if (round === 0) console.log("writing");
  }
`;

const canMount = spawnSync("unshare", ["-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).status === 0;

test.runIf(canMount)("a full disk gives a clear error and keeps the old file", async () => {
  const { path } = await testRoot({ "small/keep.txt": "" });
  const mounted = 'mount -t tmpfs -o size=256k tmpfs "$2/small" && exec "$0" --input-type=module -e "$3" "$1" "$2"';

  const { stdout, stderr } = spawnSync(
    "unshare",
    ["-m", "sh", "-c", mounted, process.execPath, library, path, fullScript],
    { encoding: "utf8" },
  );

  expect(stderr).toBe("");
  expect(JSON.parse(stdout)).toEqual({
    error: { code: "action_failed", error: 'the disk is full: "small/a.txt" was not changed' },
    names: ["a.txt"],
    content: "old",
  });
});

const fullScript = `
  const { readdirSync, readFileSync } = await import("node:fs");
  const { fileProvider } = await import(process.argv[1]);
  const root = process.argv[2];
  const write = (await fileProvider({ root }).list()).find(({ entry }) => entry === "write");
  const context = { caller: { actor: "a", session: "s" }, callId: "c", signal: new AbortController().signal };
  const put = (content) => write.run({ path: "small/a.txt", content, create_parents: true }, context);
  await put("old");
  const error = await put("x".repeat(1_000_000)).then(() => undefined, (thrown) => thrown.toProblem());
  console.log(JSON.stringify({ error, names: readdirSync(root + "/small"), content: readFileSync(root + "/small/a.txt", "utf8") }));
`;

test.runIf(process.getuid?.() === 0)("a read-only file or folder is said clearly and left alone", async () => {
  const { path } = await testRoot({ "open/closed.txt": "old", "shut/a.txt": "old" });
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", closedScript, library, path], {
    encoding: "utf8",
  });

  expect(stderr).toBe("");
  expect(JSON.parse(stdout)).toEqual([
    'the system does not allow to write "open/closed.txt"',
    'the system does not allow to write "shut/a.txt"',
    'the system does not allow to delete "shut/a.txt"',
  ]);
  expect(await readFile(join(path, "open/closed.txt"), "utf8")).toBe("old");
  expect(await readdir(join(path, "shut"))).toEqual(["a.txt"]);
});

const closedScript = `
  const { chmodSync, chownSync } = await import("node:fs");
  const { dirname } = await import("node:path");
  const { fileProvider } = await import(process.argv[1]);
  const root = process.argv[2];
  chmodSync(dirname(root), 0o755);
  for (const name of ["", "/open", "/shut", "/open/closed.txt", "/shut/a.txt"]) chownSync(root + name, 65534, 65534);
  chmodSync(root + "/open/closed.txt", 0o444);
  chmodSync(root + "/shut", 0o555);
  // Only now: the sources that were imported above may be closed to a plain user.
  process.setgroups([]);
  process.setgid(65534);
  process.setuid(65534);
  const actions = await fileProvider({ root }).list();
  const context = { caller: { actor: "a", session: "s" }, callId: "c", signal: new AbortController().signal };
  const run = (entry, args) =>
    actions.find((action) => action.entry === entry).run(args, context).then(() => "done", (thrown) => thrown.message);
  console.log(JSON.stringify([
    await run("write", { path: "open/closed.txt", content: "new", create_parents: true }),
    await run("write", { path: "shut/a.txt", content: "new", create_parents: true }),
    await run("delete", { path: "shut/a.txt" }),
  ]));
`;
