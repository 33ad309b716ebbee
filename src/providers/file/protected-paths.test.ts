import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { link, mkdir, readdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { findCompiled } from "../../../test/support/compiled.ts";
import type { JsonObject } from "../../core/json.ts";
import { fileProvider } from "./file-provider.ts";
import { openEntry, openFolder } from "./open-file.ts";
import { ProtectedPaths } from "./protected-paths.ts";
import { removeTestRoots, type TestRoot, testRoot } from "./testing.ts";

afterEach(removeTestRoots);

const files = {
  "quartermaster.yaml": "policy: KEPT",
  ".quartermaster/quartermaster.db": "KEPT ledger",
  ".quartermaster/deeper/old.db": "KEPT ledger",
  "data/store.db": "KEPT store",
  "data/store.db-wal": "KEPT log",
  "data/other.txt": "free",
  "behind/policy.yaml": "KEPT through a link",
  "gate-folder/policy.yaml": "KEPT through a folder link",
  "free.txt": "free",
};

const protectedFiles = [
  "quartermaster.yaml",
  ".quartermaster",
  "data/store.db",
  "data/store.db-wal",
  "data/store.db-shm",
  "absent.yaml",
  "τέλος.yaml",
  "empty/quartermaster.yaml",
  "later/deep/quartermaster.yaml",
  "linked.yaml",
  "dangling.yaml",
  "gate/policy.yaml",
];

/** A root with protected files, and other names that lead to them. */
async function createProtectedRoot(): Promise<TestRoot> {
  // The folder is known only after it is made, so a first root makes it and a second one guards it.
  const { path } = await testRoot(files);
  const at = (name: string) => join(path, name);
  await mkdir(at("empty"));
  await symlink("behind/policy.yaml", at("linked.yaml"));
  await symlink("behind/not-yet.yaml", at("dangling.yaml"));
  await symlink("gate-folder", at("gate"));
  await symlink("quartermaster.yaml", at("to-file"));
  await symlink("to-file", at("to-link"));
  await symlink(at(".quartermaster"), at("to-folder"));
  await symlink(".", at("to-root"));
  await symlink("data", at("to-data"));
  await link(at("quartermaster.yaml"), at("hard"));
  await link(at(".quartermaster/deeper/old.db"), at("hard-inside"));
  return testRoot({}, { root: path, protect: protectedFiles.map(at) }).then((guarded) => ({ ...guarded, path }));
}

const write = (path: string): [string, JsonObject] => ["write", { path, content: "mine" }];
const edit = (path: string): [string, JsonObject] => ["edit", { path, old_string: "KEPT", new_string: "mine" }];
const read = (path: string): [string, JsonObject] => ["read", { path }];
const remove = (path: string): [string, JsonObject] => ["delete", { path }];
const grep = (path: string): [string, JsonObject] => ["grep", { pattern: "KEPT", path }];
const list = (path: string): [string, JsonObject] => ["list", { path }];
const glob = (path: string): [string, JsonObject] => ["glob", { pattern: "**", path }];
const everyWay = (path: string) => [read(path), write(path), edit(path), remove(path), grep(path)];

const attempts: readonly [string, JsonObject][] = [
  ...everyWay("quartermaster.yaml"),
  ...everyWay("./quartermaster.yaml"),
  ...everyWay(".//.///quartermaster.yaml/"),
  ...everyWay("<root>/quartermaster.yaml"),
  ...everyWay("to-root/quartermaster.yaml"),
  ...everyWay("to-root/to-root/.quartermaster/quartermaster.db"),
  ...everyWay(".quartermaster/quartermaster.db"),
  ...everyWay(".quartermaster/deeper/old.db"),
  ...everyWay("to-folder/quartermaster.db"),
  ...everyWay("data/store.db"),
  ...everyWay("data/store.db-wal"),
  ...everyWay("to-data/store.db"),
  ...everyWay("linked.yaml"),
  ...everyWay("behind/policy.yaml"),
  ...everyWay("gate/policy.yaml"),
  ...everyWay("gate-folder/policy.yaml"),
  // Links to protected files may be deleted; their targets must not be used.
  ...everyWay("to-file").filter(([entry]) => entry !== "delete"),
  ...everyWay("to-link").filter(([entry]) => entry !== "delete"),
  // A hard link is the file itself.
  ...everyWay("hard"),
  ...everyWay("hard-inside"),
  ["write", { path: "hard", content: "mine", expected_sha256: "0".repeat(64) }],
  // Protected folders.
  ...[".quartermaster", ".quartermaster/", "to-folder", ".quartermaster/deeper"].flatMap((path) => [
    list(path),
    glob(path),
    grep(path),
    write(path),
  ]),
  remove(".quartermaster"),
  remove(".quartermaster/deeper"),
  write(".quartermaster/new.txt"),
  write("to-folder/new.txt"),
  write(".quartermaster/quartermaster.db-wal"),
  // What does not exist yet, by any spelling that some file system takes for the same.
  ...everyWay("absent.yaml"),
  ...everyWay("empty/quartermaster.yaml"),
  ...everyWay("later/deep/quartermaster.yaml"),
  ...everyWay("data/store.db-shm"),
  write("Absent.YAML"),
  write("ab\u017Fent.yaml"),
  write("absent\u200C.yaml"),
  write("absent.yaml."),
  write("\uFF41bsent.yaml"),
  write("ΤΈΛΟΣ.yaml"),
  write("LATER/deep/quartermaster.yaml"),
  write("absent.yaml/inside.txt"),
  write("quartermaster.yaml/inside.txt"),
  write("behind/not-yet.yaml"),
  // What leads there.
  write("later"),
  write("later/deep"),
  remove("later"),
  remove("empty"),
  remove("to-root/empty"),
  remove("data"),
  remove("behind"),
  remove("gate"),
  remove("gate-folder"),
  remove("linked.yaml"),
  remove("dangling.yaml"),
];

describe("refuses", () => {
  test.each(attempts)("%s %j", async (entry, args) => {
    const root = await createProtectedRoot();
    const before = await treeOf(root.path);
    const path = String(args.path).replace("<root>", root.path);

    const refusal = await root.refusal(entry, { ...args, path });

    expect(refusal.toProblem()).toMatchObject({
      code: "path_refused",
      error: expect.stringMatching(/(?:is|leads to a path) protected by Quartermaster$/),
    });
    expect(JSON.stringify(refusal.toProblem())).not.toContain(root.path);
    expect(await treeOf(root.path)).toEqual(before);
  });
});

test("a dangling link to a protected path is refused", async () => {
  const { refusal } = await createProtectedRoot();

  for (const [entry, args] of [read("dangling.yaml"), write("dangling.yaml"), edit("dangling.yaml")])
    expect((await refusal(entry, args)).code).toBe("path_refused");
});

test("other files of the root are not affected", async () => {
  const { call, path } = await createProtectedRoot();

  expect(await call("read", { path: "data/other.txt" })).toMatchObject({ content: "free" });
  expect(await call("write", { path: "data/store.db-copy", content: "mine" })).toMatchObject({ created: true });
  expect(await call("write", { path: "later/beside.txt", content: "mine" })).toMatchObject({ created: true });
  expect(await call("write", { path: "sub/quartermaster.yaml", content: "mine" })).toMatchObject({ created: true });
  expect(await call("delete", { path: "to-link" })).toEqual({ path: "to-link", kind: "link" });
  expect(await call("delete", { path: "to-folder" })).toEqual({ path: "to-folder", kind: "link" });
  expect(await readFile(join(path, ".quartermaster/quartermaster.db"), "utf8")).toBe("KEPT ledger");
});

test("another file with a hard link is free", async () => {
  const { call, path } = await createProtectedRoot();
  await link(join(path, "free.txt"), join(path, "free-too.txt"));

  expect(await call("read", { path: "free-too.txt" })).toMatchObject({ content: "free" });
});

test("list, glob and grep leave out protected paths", async () => {
  const { call } = await createProtectedRoot();

  const listed = (await call("list", { depth: 5 })) as { entries: { path: string }[]; total: number };
  const globbed = await call("glob", { pattern: "**" });
  const grepped = await call("grep", { pattern: "KEPT|free", glob: "**" });

  const shown = ["data/other.txt", "free.txt"];
  const links = ["gate", "to-data", "to-file", "to-folder", "to-link", "to-root"];
  const folders = ["behind", "data", "empty", "gate-folder"];
  expect(listed.entries.map(({ path }) => path).sort()).toEqual([...folders, ...shown, ...links].sort());
  expect(listed.total).toBe(listed.entries.length);
  expect(globbed).toEqual({ paths: [...shown, ...links].sort(), truncated: false });
  expect(grepped).toMatchObject({ matches: shown.map((path) => ({ path, text: "free" })), files_searched: 2 });
  expect(grepped).not.toHaveProperty("files_skipped");
});

test("suggestions leave out protected paths", async () => {
  const { refusal } = await createProtectedRoot();

  const { details } = await refusal("read", { path: "quartermaster.yml" });

  expect(JSON.stringify(details)).not.toMatch(/quartermaster|hard|linked/);
});

test("notices when a file becomes or stops being protected", async () => {
  const { call, refusal, path } = await createProtectedRoot();
  await rename(join(path, "quartermaster.yaml"), join(path, "moved.yaml"));
  await rm(join(path, "hard"));
  await symlink("free.txt", join(path, "quartermaster.yaml"));

  expect(await call("read", { path: "moved.yaml" })).toMatchObject({ content: "policy: KEPT" });
  expect((await refusal("read", { path: "free.txt" })).message).toBe('"free.txt" is protected by Quartermaster');
});

test("refuses files with hard links if too many files are protected", async () => {
  const { path } = await testRoot({ "a.txt": "free", "huge/x": "" });
  for (let index = 0; index < 10_001; index++) await writeFile(join(path, "huge", String(index)), "");
  await link(join(path, "a.txt"), join(path, "b.txt"));
  const guarded = await testRoot({}, { root: path, protect: [join(path, "huge")] });

  expect((await guarded.refusal("read", { path: "a.txt" })).code).toBe("path_refused");
  await rm(join(path, "b.txt"));
  expect(await guarded.call("read", { path: "a.txt" })).toMatchObject({ content: "free" });
});

test("refuses another spelling of a protected name", async ({ skip }) => {
  const { path, refusal, call } = await createProtectedRoot();
  if (!existsSync(join(path, "FREE.TXT"))) skip("the file system tells upper from lower case");

  for (const name of ["Quartermaster.yaml", ".QUARTERMASTER/quartermaster.db", "DATA/Store.DB", "TO-FILE"])
    for (const [entry, args] of [read(name), write(name), edit(name), grep(name)])
      expect((await refusal(entry, args)).message).toContain("is protected by Quartermaster");
  expect((await refusal("delete", { path: "QUARTERMASTER.yaml" })).code).toBe("path_refused");
  expect((await refusal("delete", { path: "Empty" })).code).toBe("path_refused");
  expect(await call("read", { path: "FREE.txt" })).toMatchObject({ content: "free" });
});

test("checks a replaced file or folder when it is opened", async () => {
  const { path } = await testRoot(files);
  const kept = new ProtectedPaths([join(path, "quartermaster.yaml"), join(path, ".quartermaster")]);
  const folder = await openFolder(path, ".", kept);

  await expect(openEntry(folder, "quartermaster.yaml", "x")).rejects.toMatchObject({ code: "path_refused" });
  await expect(openFolder(join(path, ".quartermaster"), "x", kept)).rejects.toMatchObject({ code: "path_refused" });

  await folder.close();
});

const canMount = spawnSync("unshare", ["-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).status === 0;

test.runIf(canMount)("recognizes a second mount by its inode", async () => {
  const { path } = await testRoot({ ...files, "again.yaml": "", "again/x": "", "twice/x": "" });
  const library = findCompiled("src/index.ts");
  const mounted =
    'cd "$2" && mount --bind quartermaster.yaml again.yaml && mount --bind .quartermaster again && mount --bind . twice && cd "$4" && exec "$0" --input-type=module -e "$3" "$1" "$2"';

  const { stdout, stderr } = spawnSync(
    "unshare",
    ["-m", "sh", "-c", mounted, process.execPath, library, path, mountedScript, process.cwd()],
    { encoding: "utf8" },
  );

  expect(stderr).toBe("");
  expect(JSON.parse(stdout)).toEqual(Array.from({ length: 8 }, () => "path_refused"));
});

const mountedScript = `
  const { fileProvider } = await import(process.argv[1]);
  const root = process.argv[2];
  const protect = ["quartermaster.yaml", ".quartermaster", "absent.yaml"].map((name) => root + "/" + name);
  const actions = await fileProvider({ root, protect }).list();
  const context = { caller: { actor: "a", session: "s" }, callId: "c", signal: new AbortController().signal };
  const run = (entry, args) =>
    actions.find((action) => action.entry === entry).run(args, context).then(() => "done", (thrown) => thrown.code);
  const write = (path) => run("write", { path, content: "mine", create_parents: true });
  console.log(JSON.stringify([
    await run("read", { path: "again.yaml", offset: 0, limit: 9, byte_offset: 0 }),
    await run("read", { path: "again/quartermaster.db", offset: 0, limit: 9, byte_offset: 0 }),
    await run("list", { path: "again", depth: 1, limit: 9 }),
    await run("edit", { path: "twice/quartermaster.yaml", old_string: "KEPT", new_string: "mine", replace_all: false }),
    await write("again/new.txt"),
    await write("twice/absent.yaml"),
    await write("twice/.quartermaster/new.txt"),
    await run("delete", { path: "again/quartermaster.db" }),
  ]));
`;

describe("a root that is protected, or inside a protected path", () => {
  test.each([".quartermaster", ".quartermaster/deeper", ".quartermaster/not-yet", "to-folder", "to-folder/deeper"])(
    "%s is refused at once",
    async (root) => {
      const { path } = await createProtectedRoot();

      expect(() => fileProvider({ root: join(path, root), protect: [join(path, ".quartermaster")] })).toThrow(
        expect.objectContaining({ code: "invalid_config", message: expect.stringContaining(basename(root)) }),
      );
    },
  );

  test("is noticed if it becomes one later", async () => {
    const { path } = await testRoot({ "a.txt": "free" });
    const guarded = await testRoot({}, { root: path, protect: [`${path}-kept`] });
    await symlink(path, `${path}-kept`);

    expect((await guarded.refusal("read", { path: "a.txt" })).code).toBe("path_refused");
    expect((await guarded.refusal("list", {})).code).toBe("path_refused");
  });
});

test.each([["relative.txt"], [""], ["/a\0b"]])("%j is not a path to protect", (path) => {
  expect(() => fileProvider({ root: "/srv/files", protect: [path] })).toThrow(/is not an absolute path/);
});

describe("a protected name", () => {
  async function namedRoot(): Promise<TestRoot> {
    const { path } = await testRoot({
      "quartermaster.yaml": "KEPT",
      "sub/quartermaster.yaml": "KEPT",
      "sub/deep/Quartermaster.YAML": "KEPT",
      "sub/free.txt": "free",
      "folder/quartermaster.yaml/inside.txt": "KEPT",
    });
    const at = (name: string) => join(path, name);
    await symlink("sub/quartermaster.yaml", at("to-file"));
    await symlink("folder/quartermaster.yaml", at("to-folder"));
    await mkdir(at("linked"));
    await symlink("../sub/free.txt", at("linked/quartermaster.yaml"));
    return testRoot({}, { root: path, protectNames: ["quartermaster.yaml"] }).then((root) => ({ ...root, path }));
  }

  test.each([
    ...everyWay("quartermaster.yaml"),
    ...everyWay("sub/quartermaster.yaml"),
    ...everyWay("sub/deep/Quartermaster.YAML"),
    ...everyWay("folder/quartermaster.yaml/inside.txt"),
    ...everyWay("linked/quartermaster.yaml"),
    ...everyWay("to-folder/inside.txt"),
    ...everyWay("to-file").filter(([entry]) => entry !== "delete"),
    list("folder/quartermaster.yaml"),
    glob("to-folder"),
    remove("folder/quartermaster.yaml"),
    write("new/quartermaster.yaml"),
    write("new/QUARTERMASTER.yaml"),
    write("sub/quarterma\u017Fter.yaml"),
    write("sub/quartermaster.yaml."),
    write("sub/quartermaster\u200C.yaml"),
    write("new/quartermaster.yaml/inside.txt"),
  ])("is refused at every depth: %s %j", async (entry, args) => {
    const root = await namedRoot();
    const before = await treeOf(root.path);

    expect((await root.refusal(entry, args)).toProblem()).toMatchObject({
      code: "path_refused",
      error: expect.stringMatching(/is protected by Quartermaster$/),
    });
    expect(await treeOf(root.path)).toEqual(before);
  });

  test("is not listed, found, searched or suggested, but its siblings are", async () => {
    const { call, refusal } = await namedRoot();

    const listed = (await call("list", { depth: 5 })) as { entries: { path: string }[] };
    const shown = ["folder", "linked", "sub", "sub/deep", "sub/free.txt", "to-file", "to-folder"];
    expect(listed.entries.map(({ path }) => path).sort()).toEqual(shown);
    expect(await call("glob", { pattern: "**" })).toMatchObject({ paths: ["sub/free.txt", "to-file", "to-folder"] });
    expect(await call("grep", { pattern: "KEPT|free" })).toMatchObject({ matches: [{ path: "sub/free.txt" }] });
    expect((await refusal("read", { path: "sub/quartermaster.yml" })).details).toEqual({
      suggestions: ["sub/free.txt", "sub/deep"],
    });
    expect(await call("write", { path: "sub/quartermaster.yml", content: "" })).toMatchObject({ created: true });
  });

  test("counts below the root only", async () => {
    const { path } = await testRoot({ "src/a.txt": "free", "src/src/b.txt": "KEPT" });
    const { call, refusal } = await testRoot({}, { root: join(path, "src"), protectNames: ["src"] });

    expect(await call("read", { path: "a.txt" })).toMatchObject({ content: "free" });
    expect((await refusal("read", { path: "src/b.txt" })).code).toBe("path_refused");
  });

  test.each([[""], ["."], ["a/b"], ["a\\b"], ["a\0"]])("cannot be %j", (name) => {
    expect(() => fileProvider({ root: "/srv/files", protectNames: [name] })).toThrow(/is not the name of a file/);
  });
});

test("protects a link that leads to itself", async () => {
  const { path } = await testRoot({ "a.txt": "free" });
  await symlink("loop", join(path, "loop"));
  const guarded = await testRoot({}, { root: path, protect: [join(path, "loop")] });

  expect((await guarded.refusal("delete", { path: "loop" })).message).toContain("is protected");
  expect(await guarded.call("read", { path: "a.txt" })).toMatchObject({ content: "free" });
});

async function treeOf(folder: string): Promise<Record<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const contents = entries.map(async (entry) => {
    const path = join(entry.parentPath, entry.name);
    return [path, entry.isFile() ? await readFile(path, "utf8") : String(entry.isSymbolicLink())] as const;
  });
  return Object.fromEntries(await Promise.all(contents));
}
