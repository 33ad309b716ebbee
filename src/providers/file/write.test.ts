import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { removeTestRoots, testRoot } from "./testing.ts";
import { sha256 } from "./write.ts";

afterEach(removeTestRoots);

test("creates a file and its folders", async () => {
  const { call, path } = await testRoot();

  const answer = await call("write", { path: "a/b/c.txt", content: "grüße" });

  expect(answer).toEqual({ path: "a/b/c.txt", bytes: 7, created: true, sha256: sha256(Buffer.from("grüße")) });
  expect(await readFile(join(path, "a/b/c.txt"), "utf8")).toBe("grüße");
  expect(await readdir(join(path, "a/b"))).toEqual(["c.txt"]);
});

test("creates no folders without create_parents", async () => {
  const { refusal, path } = await testRoot();

  expect(await refusal("write", { path: "a/b.txt", content: "", create_parents: false })).toMatchObject({
    code: "not_found",
  });
  expect(await readdir(path)).toEqual([]);
});

test("replaces a file and keeps its mode", async () => {
  const { call, path } = await testRoot({ "run.sh": "old" });
  await chmod(join(path, "run.sh"), 0o750);

  const answer = await call("write", { path: "run.sh", content: "new" });

  expect(answer).toMatchObject({ created: false });
  expect(await readFile(join(path, "run.sh"), "utf8")).toBe("new");
  expect((await stat(join(path, "run.sh"))).mode & 0o777).toBe(0o750);
});

test("writes the file that a link inside the root points to, and keeps the link", async () => {
  const { call, path } = await testRoot({ "real.txt": "old" });
  await symlink("real.txt", join(path, "link"));

  await call("write", { path: "link", content: "new" });

  expect(await readFile(join(path, "real.txt"), "utf8")).toBe("new");
  expect((await readdir(path, { withFileTypes: true })).find(({ name }) => name === "link")?.isSymbolicLink()).toBe(
    true,
  );
});

test("replaces only content with the expected hash", async () => {
  const { call, refusal, path } = await testRoot({ "a.txt": "one" });
  const { sha256: read } = await call("read", { path: "a.txt" });
  await writeFile(join(path, "a.txt"), "changed by somebody");

  const error = await refusal("write", { path: "a.txt", content: "two", expected_sha256: String(read) });
  const missing = await refusal("write", { path: "new.txt", content: "two", expected_sha256: String(read) });

  expect(error).toMatchObject({ code: "conflict", details: { sha256: sha256(Buffer.from("changed by somebody")) } });
  expect(missing.code).toBe("conflict");
  expect(await readFile(join(path, "a.txt"), "utf8")).toBe("changed by somebody");

  const now = String(error.details.sha256);
  expect(await call("write", { path: "a.txt", content: "two", expected_sha256: now })).toMatchObject({
    created: false,
  });
});

test("lets one of two writes with the same expected hash succeed", async () => {
  const { call } = await testRoot({ "a.txt": "one" });
  const expected_sha256 = sha256(Buffer.from("one"));

  const answers = await Promise.allSettled(
    ["two", "three"].map((content) => call("write", { path: "a.txt", content, expected_sha256 })),
  );

  expect(answers.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
});

test.each([
  ["a folder", "folder", "conflict"],
  ["the root", ".", "conflict"],
  ["something below a file", "file.txt/below.txt", "conflict"],
])("does not overwrite %s, and leaves no temporary file", async (_what, target, code) => {
  const { refusal, path } = await testRoot({ "file.txt": "old" });
  await mkdir(join(path, "folder"));

  expect((await refusal("write", { path: target, content: "new" })).code).toBe(code);

  expect(await readdir(path, { recursive: true })).toEqual(["file.txt", "folder"]);
  expect(await readFile(join(path, "file.txt"), "utf8")).toBe("old");
});

test("refuses too large or invalid text before it writes", async () => {
  const { refusal, path } = await testRoot({}, { maxWriteBytes: 10 });

  expect((await refusal("write", { path: "a.txt", content: "é".repeat(6) })).code).toBe("too_large");
  expect((await refusal("write", { path: "a.txt", content: "\ud83d" })).code).toBe("invalid_arguments");
  expect(await readdir(path)).toEqual([]);
});

test("a cancelled write leaves the old file, no temporary file and no new folder", async () => {
  const { call, path } = await testRoot({ "a.txt": "old" });

  await expect(call("write", { path: "a.txt", content: "new" }, AbortSignal.abort())).rejects.toThrow(/abort/i);
  await expect(call("write", { path: "x/y/z.txt", content: "new" }, AbortSignal.abort())).rejects.toThrow(/abort/i);

  expect(await readdir(path)).toEqual(["a.txt"]);
  expect(await readFile(join(path, "a.txt"), "utf8")).toBe("old");
});

test("concurrent writes into the same new folder all succeed", async () => {
  const { call, path } = await testRoot();

  await Promise.all(
    Array.from({ length: 20 }, (_, n) => call("write", { path: `new/deep/${n % 10}.txt`, content: `${n}` })),
  );

  expect((await readdir(join(path, "new/deep"))).sort()).toEqual(Array.from({ length: 10 }, (_, n) => `${n}.txt`));
});

test("writes a file that another process creates while its path is followed", async () => {
  const { call, path } = await testRoot();

  for (let round = 0; round < 200; round++) {
    const file = `${round}.txt`;
    await Promise.all([call("write", { path: file, content: "ours" }), writeFile(join(path, file), "theirs")]);
  }
});
