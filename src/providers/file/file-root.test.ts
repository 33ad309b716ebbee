import { execFileSync } from "node:child_process";
import { mkdir, readdir, readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { QmError } from "../../core/errors.ts";
import { parsePathParts } from "./file-root.ts";
import { removeTestRoots, type TestRoot, testRoot } from "./testing.ts";

let root: TestRoot;

beforeAll(async () => {
  root = await testRoot({ "a.txt": "inside", "folder/b.txt": "inside" });
  const at = (name: string) => join(root.path, name);
  await symlink(join(root.outside, "secret.txt"), at("out-file"));
  await symlink(root.outside, at("out-folder"));
  await symlink("../outside/secret.txt", at("out-relative"));
  await symlink("out-file", at("chain-1"));
  await symlink("chain-1", at("chain-2"));
  await symlink("..", at("up"));
  await symlink("/", at("slash"));
  await symlink("/proc/self/root/etc", at("proc-root"));
  await symlink("/dev/zero", at("zero"));
  await symlink("loop", at("loop"));
  await symlink("loop-b", at("loop-a"));
  await symlink("loop-a", at("loop-b"));
  await symlink("nowhere", at("dangling"));
  await symlink(join(root.outside, "nowhere"), at("dangling-out"));
  await mkdir(at("deep"));
  await symlink("../../outside", at("deep/out"));
  await symlink("../out-folder", at("deep/out-by-link"));
  await symlink(join(root.path, "..", "root", "..", "outside"), at("winding"));
  await symlink("a.txt", at("in-file"));
  await symlink("folder", at("in-folder"));
  await symlink("../a.txt", at("folder/in-up"));
  execFileSync("mkfifo", [at("pipe")]);
});

afterAll(removeTestRoots);

const lexical = [
  "..",
  "../",
  "../outside/secret.txt",
  "./../outside/secret.txt",
  "folder/../../outside/secret.txt",
  "folder/../a.txt",
  "folder/..",
  ".//..//outside//secret.txt",
  "a.txt/../../outside/secret.txt",
  ".../outside",
  ".. /outside/secret.txt",
  " ../outside",
  "/etc/passwd",
  "/",
  "//etc/passwd",
  "/proc/self/environ",
  "/dev/zero",
  "<root>/../outside/secret.txt",
  "<root>-sibling/x",
  "<outside>/secret.txt",
  "~",
  "~/secret.txt",
  "file:///etc/passwd",
  "https://example.com/x",
  "a.txt\0",
  "a.txt\0/../../outside/secret.txt",
  "\0",
  "..\\outside\\secret.txt",
  "folder\\..\\..\\outside",
  "\\\\server\\share",
  "\\\\?\\C:\\x",
  "C:\\Windows\\win.ini",
  "C:/Windows/win.ini",
  "c:secret",
  "CON",
  "nul",
  "folder/NUL.txt",
  "aux.h",
  "COM1",
  "lpt9.log",
  "CON:stream",
  "con .txt",
  "\ud800",
  ".qm-tmp-0123456789abcdef",
  "a/".repeat(3000),
  "x".repeat(256),
  "é".repeat(128),
].map((path) => [path]);

const throughLinks = [
  "out-file",
  "out-folder",
  "out-folder/secret.txt",
  "out-folder/not-there",
  "out-relative",
  "chain-1",
  "chain-2",
  "up/outside/secret.txt",
  "up/root-sibling",
  "slash/etc/passwd",
  "slash",
  "proc-root/passwd",
  "zero",
  "loop",
  "loop/x",
  "loop-a",
  "dangling",
  "dangling/x",
  "dangling-out",
  "dangling-out/x/y",
  "deep/out/secret.txt",
  "deep/out-by-link/secret.txt",
  "winding/secret.txt",
].map((path) => [path]);

/** Nothing but a name here: not decoded, not folded, so there is no such file. */
const onlyNames = [
  "%2e%2e/outside/secret.txt",
  "..%2foutside%2fsecret.txt",
  "%2e%2e%2foutside%2fsecret.txt",
  "..%252foutside",
  "%c0%ae%c0%ae/outside",
  "．．/outside/secret.txt",
  "․․/outside/secret.txt",
  "..／outside",
  "..∕outside∕secret.txt",
  "‥/outside",
  "..;/outside/secret.txt",
  "a.txt%00",
  "$HOME/secret.txt",
  "`id`",
  "a.txt\n../outside",
  "\u202e../outside",
  "\u2024./outside",
  "-rf",
].map((path) => [path]);

const uses: readonly [string, (path: string) => Record<string, string>][] = [
  ["read", (path) => ({ path })],
  ["write", (path) => ({ path, content: "overwritten" })],
  ["edit", (path) => ({ path, old_string: "SECRET", new_string: "x" })],
  ["list", (path) => ({ path })],
  ["glob", (path) => ({ path, pattern: "**" })],
  ["grep", (path) => ({ path, pattern: "SECRET" })],
];

describe("a path that leads outside", () => {
  test.each([...lexical, ...throughLinks])("is refused everywhere: %j", async (hostile) => {
    const path = hostile.replace("<root>", root.path).replace("<outside>", root.outside);

    for (const [entry, args] of uses) {
      const error = await root.refusal(entry, args(path));
      expect([entry, error.code, error.message]).toEqual([entry, "path_refused", expect.any(String)]);
      expect(JSON.stringify(error.toProblem())).not.toContain(root.path);
    }
  });

  test.each(lexical)("cannot be deleted: %j", async (hostile) => {
    const path = hostile.replace("<root>", root.path).replace("<outside>", root.outside);

    const error = await root.refusal("delete", { path });

    expect(error.code).toBe("path_refused");
    expect(error.message).not.toContain(root.path);
  });

  test("leaves everything outside as it was", async () => {
    expect(await readdir(root.outside)).toEqual(["secret.txt"]);
    expect(await readFile(join(root.outside, "secret.txt"), "utf8")).toBe("SECRET");
  });
});

test.each(onlyNames)("an encoded or look-alike path is only a name: %j", async (path) => {
  const error = await root.refusal("read", { path });

  expect(error.code).toBe("not_found");
  expect(JSON.stringify(error.toProblem())).not.toContain("SECRET");
});

test("gives the same error for links to existing and missing targets outside", async () => {
  const [there, nothing] = [
    await root.refusal("read", { path: "out-file" }),
    await root.refusal("read", { path: "dangling-out" }),
  ];

  expect(there.message.replace("out-file", "X")).toBe(nothing.message.replace("dangling-out", "X"));
});

test.each([["a.txt"], ["./a.txt"], ["folder/in-up"], ["in-file"], ["<root>/a.txt"]])(
  "a path inside is read, through links too: %j",
  async (path) => {
    const answer = await root.call("read", { path: path.replace("<root>", root.path) });

    expect(answer).toMatchObject({ content: "inside" });
    expect(answer.path).not.toContain(root.path);
  },
);

test("a link to a folder inside can be named", async () => {
  expect(await root.call("read", { path: "in-folder/b.txt" })).toMatchObject({
    path: "in-folder/b.txt",
    content: "inside",
  });
  expect(await root.call("list", { path: "in-folder" })).toMatchObject({ total: 2 });
});

test("refuses a pipe without waiting for it", async () => {
  for (const entry of ["read", "write", "edit", "grep", "delete"]) {
    const use = uses.find(([name]) => name === entry)?.[1] ?? ((path: string) => ({ path }));
    expect((await root.refusal(entry, use("pipe"))).code).toBe("path_refused");
  }
});

test("a root that is missing is an error without its path", async () => {
  const gone = await testRoot({}, { root: "/nowhere/at/all" });

  const error = await gone.refusal("read", { path: "a.txt" });

  expect(error.code).toBe("not_found");
  expect(error.message).not.toContain("/nowhere");
});

test("parts never lead up, for any text", () => {
  const unit = fc.constantFrom(".", "..", "/", "a", " ", "\\", "\0", "~", ":", "con", "%2e", "\u202e");

  fc.assert(
    fc.property(fc.string({ unit, maxLength: 12 }), (text) => {
      try {
        const parts = parsePathParts(["/root/folder"], text);
        expect(join("/root/folder", ...parts)).toMatch(/^\/root\/folder(?:\/|$)/);
        expect(parts).not.toContain("..");
      } catch (thrown) {
        expect(thrown).toBeInstanceOf(QmError);
      }
    }),
    { numRuns: 2000 },
  );
});
