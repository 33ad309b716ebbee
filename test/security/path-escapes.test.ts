import { execFileSync } from "node:child_process";
import {
  link,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { omitUndefined } from "../../src/core/json.ts";
import { openWorkspace, type Workspace } from "../../src/workspace/workspace.ts";

let base: string;
let root: string;
let outside: string;
let workspace: Workspace;

const CONFIG = "providers: { file: { read_only: false } }\n";

beforeAll(async () => {
  base = await realpath(await mkdtemp(join(tmpdir(), "qm-escapes-")));
  root = join(base, "root");
  outside = join(base, "outside");
  for (const folder of ["folder", "deep", "swapped"]) await mkdir(join(root, folder), { recursive: true });
  await mkdir(outside);
  await writeFile(join(outside, "secret.txt"), "SECRET");
  await writeFile(join(root, "a.txt"), "inside");
  await writeFile(join(root, "quartermaster.yaml"), CONFIG);
  await mkdir(join(root, ".quartermaster"), { recursive: true });
  await writeFile(join(root, ".quartermaster/notes.txt"), "SECRET");
  const links = {
    "out-file": join(outside, "secret.txt"),
    "out-folder": outside,
    "out-relative": "../outside/secret.txt",
    "chain-1": "out-file",
    "chain-2": "chain-1",
    up: "..",
    slash: "/",
    "proc-root": "/proc/self/root",
    zero: "/dev/zero",
    loop: "loop",
    "loop-a": "loop-b",
    "loop-b": "loop-a",
    "dangling-out": join(outside, "nowhere"),
    "deep/out": "../../outside",
    "deep/by-link": "../out-folder",
    "to-config": "quartermaster.yaml",
    "to-state": ".quartermaster",
  };
  for (const [name, target] of Object.entries(links)) await symlink(target, join(root, name));
  await link(join(root, "quartermaster.yaml"), join(root, "hard-config.txt"));
  await link(join(root, ".quartermaster/notes.txt"), join(root, "hard-state.txt"));
  execFileSync("mkfifo", [join(root, "pipe")]);
  workspace = await openWorkspace({ cwd: root, env: {} });
});

afterAll(async () => {
  await workspace.close();
  await rm(base, { recursive: true });
});

/** `<root>` and `<outside>` stand for the absolute paths. */
const paths = [
  // Lexical
  "..",
  "../outside/secret.txt",
  "./../outside/secret.txt",
  "folder/../../outside/secret.txt",
  "folder/..",
  ".//..//outside//secret.txt",
  ".../outside",
  ".. /outside/secret.txt",
  "/etc/passwd",
  "//etc/passwd",
  "/proc/self/environ",
  "/proc/self/root/etc/passwd",
  "/proc/self/cwd/package.json",
  "/proc/self/fd/3",
  "/dev/zero",
  "/dev/stdin",
  "<root>/../outside/secret.txt",
  "<root>-sibling/x",
  "<outside>/secret.txt",
  "~",
  "~/secret.txt",
  "file:///etc/passwd",
  "https://example.com/x",
  "a.txt\0",
  "a.txt\0/../../outside/secret.txt",
  "..\\outside\\secret.txt",
  "folder\\..\\..\\outside",
  "\\\\server\\share",
  "\\\\?\\C:\\x",
  "C:\\Windows\\win.ini",
  "C:/Windows/win.ini",
  "c:secret",
  "CON",
  "folder/NUL.txt",
  "COM1",
  "lpt9.log",
  "\ud800",
  ".qm-tmp-0123456789abcdef",
  "folder/.qm-tmp-0123456789abcdef",
  "a/".repeat(3000),
  "x".repeat(256),
  // Links
  "out-folder/secret.txt",
  "out-folder/not-there",
  "chain-2/x",
  "up/outside/secret.txt",
  "slash/etc/passwd",
  "proc-root/etc/passwd",
  "loop/x",
  "loop-a/x",
  "dangling-out/x",
  "deep/out/secret.txt",
  "deep/by-link/secret.txt",
  // Protected files under every spelling
  "quartermaster.yaml",
  "./quartermaster.yaml",
  "<root>/quartermaster.yaml",
  "QUARTERMASTER.YAML",
  "Quartermaster.yaml",
  "quartermaster.yaml.",
  "quartermaster.yaml ",
  "quartermaster.yaml. .",
  "ｑuartermaster.yaml",
  "quarter\u200bmaster.yaml",
  "folder/quartermaster.yaml",
  "quartermaster.yaml.bak-1",
  ".quartermaster/notes.txt",
  ".QuarterMaster/notes.txt",
  ".quartermaster./notes.txt",
  "./.quartermaster//notes.txt",
  "to-state/notes.txt",
  "hard-config.txt",
  "hard-state.txt",
];

/** A deletion removes only the link, so these are refused for the other actions. */
const linkPaths = [
  "out-file",
  "out-folder",
  "out-relative",
  "chain-1",
  "chain-2",
  "up",
  "slash",
  "proc-root",
  "zero",
  "loop",
  "loop-a",
  "dangling-out",
  "to-config",
  "to-state",
];

/** Names that are other names on this system, and lead nowhere. */
const harmless = [
  "%2e%2e/outside/secret.txt",
  "..%2foutside/secret.txt",
  "．．/outside/secret.txt",
  "‥/outside/secret.txt",
  "..∕outside∕secret.txt",
  "folder／..／secret.txt",
];

const following: Record<string, (path: string) => object> = {
  read: (path) => ({ path }),
  list: (path) => ({ path }),
  glob: (path) => ({ path, pattern: "**" }),
  grep: (path) => ({ path, pattern: "." }),
  write: (path) => ({ path, content: "OVERWRITTEN" }),
  edit: (path) => ({ path, old_string: "SECRET", new_string: "OVERWRITTEN" }),
};
const every: Record<string, (path: string) => object> = { ...following, delete: (path: string) => ({ path }) };

async function call(entry: string, args: object) {
  const outcome = await workspace.quartermaster.invoke(`file__${entry}`, args);
  expect(JSON.stringify(outcome)).not.toContain("SECRET");
  return outcome;
}

async function expectOutsideUnchanged(): Promise<void> {
  expect((await readdir(base)).sort()).toEqual(["outside", "root"]);
  expect(await readdir(outside)).toEqual(["secret.txt"]);
  expect(await readFile(join(outside, "secret.txt"), "utf8")).toBe("SECRET");
  expect(await readFile(join(root, "quartermaster.yaml"), "utf8")).toBe(CONFIG);
  expect(await readFile(join(root, ".quartermaster/notes.txt"), "utf8")).toBe("SECRET");
}

const fill = (path: string) => path.replace("<root>", root).replace("<outside>", outside);

test.each(paths.map((path) => [path]))("every action refuses the path %j", async (path) => {
  for (const [entry, toArgs] of Object.entries(every)) {
    const args = toArgs(fill(path));
    // `old_string` would itself be in the answer.
    const outcome = await workspace.quartermaster.invoke(`file__${entry}`, args);
    expect([entry, outcome]).toMatchObject([entry, { status: "failed" }]);
    const code = "error" in outcome ? outcome.error.code : "";
    expect([entry, code]).toEqual([entry, expect.stringMatching(/^(path_refused|invalid_arguments)$/)]);
  }
  await expectOutsideUnchanged();
});

test.each(linkPaths.map((path) => [path]))("no action follows the link %j", async (path) => {
  for (const [entry, toArgs] of Object.entries(following)) {
    const outcome = await workspace.quartermaster.invoke(`file__${entry}`, toArgs(path));
    expect([entry, outcome]).toMatchObject([entry, { status: "failed", error: { code: "path_refused" } }]);
  }
  await expectOutsideUnchanged();
});

test.each(harmless.map((path) => [path]))("%j is never decoded to a path outside", async (path) => {
  for (const entry of ["read", "list", "glob", "grep", "delete", "edit"] as const) {
    const outcome = await workspace.quartermaster.invoke(`file__${entry}`, every[entry]?.(path) ?? {});
    expect([entry, outcome.status]).toEqual([entry, "failed"]);
  }
  await workspace.quartermaster.invoke("file__write", { path, content: "inside" });
  await workspace.quartermaster.invoke("file__delete", { path });
  await expectOutsideUnchanged();
});

test("watch reports nothing outside and nothing protected for any of these paths", async () => {
  const hidden = [
    join(outside, "secret.txt"),
    join(root, "quartermaster.yaml"),
    join(root, ".quartermaster/notes.txt"),
  ];
  let at = 1_000_000_000;
  for (const path of [...paths, ...linkPaths, ...harmless].map(fill)) {
    const first = await call("watch", { paths: [path] });
    for (const file of hidden) await utimes(file, at, at++);
    const since = first.status === "done" ? (first.data as { cursor: string }).cursor : undefined;
    const second = await call("watch", omitUndefined({ paths: [path], since }));

    const refused = { error: { code: expect.stringMatching(/^(path_refused|invalid_arguments)$/) } };
    expect([path, second]).toMatchObject([path, since === undefined ? refused : { data: { changes: [] } }]);
  }
});

const patterns = ["../**", "../outside/*", "/etc/*", "folder/../../outside/*", "{a,..}/*", "<outside>/*", "./../*"];

test.each(patterns.map((pattern) => [pattern]))("glob, grep and watch refuse the pattern %j", async (pattern) => {
  for (const [entry, args] of [
    ["glob", { pattern: fill(pattern) }],
    ["grep", { pattern: ".", glob: fill(pattern) }],
    ["watch", { paths: [fill(pattern)] }],
  ] as const)
    expect([entry, await call(entry, args)]).toMatchObject([entry, { error: { code: "path_refused" } }]);
});

const inside = [
  "**",
  "out-folder/**",
  "*/secret.txt",
  "[.][.]/**",
  "\\.\\./**",
  ".quartermaster/*",
  "*.yaml",
  "hard-*",
];

test.each(inside.map((pattern) => [pattern]))(
  "the pattern %j finds nothing outside and nothing protected",
  async (pattern) => {
    const globbed = await call("glob", { pattern });
    const grepped = await call("grep", { pattern: "SECRE[T]|provider[s]", glob: pattern });
    const { data } = (await call("watch", { paths: [pattern] })) as { data?: { cursor?: string } };
    await writeFile(join(root, ".quartermaster/new.txt"), "x");
    const watched = await call("watch", { paths: [pattern], since: data?.cursor });
    await rm(join(root, ".quartermaster/new.txt"));

    expect(JSON.stringify(globbed)).not.toMatch(/secret\.txt|quartermaster\.yaml|\.quartermaster\/|hard-/);
    expect(grepped).toMatchObject({ data: { matches: [] } });
    expect(watched).toMatchObject({ status: "done" });
    expect(JSON.stringify(watched)).not.toMatch(/secret\.txt|\.quartermaster\/|hard-/);
  },
);

test("no action gets out while a folder is swapped for a link", async () => {
  const at = join(root, "swapped");
  await symlink(outside, join(root, "other"));
  let isDone = false;
  /** A write that comes while neither is there creates the folder, which is then in the way. */
  async function replace(from: string): Promise<void> {
    while (
      !(await rename(from, at).then(
        () => true,
        () => false,
      ))
    )
      await rm(at, { recursive: true, force: true });
  }
  const swapping = (async () => {
    while (!isDone) {
      await rename(at, join(root, "away"));
      await replace(join(root, "other"));
      await rename(at, join(root, "other"));
      await replace(join(root, "away"));
    }
  })();
  try {
    for (let round = 0; round < 30; round++) {
      await call("read", { path: "swapped/secret.txt" });
      await call("grep", { path: "swapped", pattern: "SECRE[T]" });
      for (const entry of ["glob", "list", "watch"] as const) {
        const args = entry === "watch" ? { paths: ["swapped/**"] } : { path: "swapped", pattern: "**" };
        expect(JSON.stringify(await call(entry, entry === "list" ? { path: "swapped" } : args))).not.toContain(
          "secret",
        );
      }
      await workspace.quartermaster.invoke("file__write", { path: "swapped/secret.txt", content: "OVERWRITTEN" });
      await workspace.quartermaster.invoke("file__delete", { path: "swapped/secret.txt" });
    }
  } finally {
    isDone = true;
    await swapping;
  }
  await rm(join(root, "other"));
  await expectOutsideUnchanged();
});
