import { execFileSync } from "node:child_process";
import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { removeTestRoots, testRoot } from "./testing.ts";

afterEach(removeTestRoots);

test("returns matching lines in order", async () => {
  const { call } = await testRoot({ "a.ts": "one\nTODO: two\r\nthree todo\n", "b/c.md": "todo", "d.txt": "nothing" });

  expect(await call("grep", { pattern: "todo" })).toEqual({
    matches: [
      { path: "a.ts", line: 1, text: "TODO: two" },
      { path: "a.ts", line: 2, text: "three todo" },
      { path: "b/c.md", line: 0, text: "todo" },
    ],
    truncated: false,
    files_searched: 3,
  });
  expect(await call("grep", { pattern: "^todo$", case_sensitive: true })).toMatchObject({
    matches: [{ path: "b/c.md" }],
  });
});

test("searches one file, some files, or a folder", async () => {
  const { call } = await testRoot({
    "a.ts": "x",
    "src/b.ts": "x",
    "src/c.md": "x",
    "src/deep/d.ts": "x",
    "node_modules/e.ts": "x",
  });
  const found = async (args: Record<string, string>) =>
    ((await call("grep", { pattern: "x", ...args })).matches as { path: string }[]).map(({ path }) => path);

  expect(await found({ path: "src/c.md" })).toEqual(["src/c.md"]);
  expect(await found({ glob: "*.ts" })).toEqual(["a.ts", "src/b.ts", "src/deep/d.ts"]);
  expect(await found({ glob: "src/*.ts" })).toEqual(["src/b.ts"]);
  expect(await found({ path: "src", glob: "*.{md,txt}" })).toEqual(["src/c.md"]);
  expect(await found({ path: "node_modules" })).toEqual(["node_modules/e.ts"]);
});

test("shows the lines around a match, up to the ends of the file", async () => {
  const { call } = await testRoot({ "a.txt": "x0\n1\n2\nx3\n4\nx5" });

  expect((await call("grep", { pattern: "x", context: 2 })).matches).toEqual([
    { path: "a.txt", line: 0, text: "x0", before: [], after: ["1", "2"] },
    { path: "a.txt", line: 3, text: "x3", before: ["1", "2"], after: ["4", "x5"] },
    { path: "a.txt", line: 5, text: "x5", before: ["x3", "4"], after: [] },
  ]);
});

test("reports more matches, and completes the context of the last one", async () => {
  const { call } = await testRoot({ "a.txt": "x\nx\nb\nc\n", "b.txt": "x" });

  expect(await call("grep", { pattern: "x", limit: 1, context: 2 })).toMatchObject({
    matches: [{ line: 0, after: ["x", "b"] }],
    truncated: true,
  });
  expect(await call("grep", { pattern: "x", limit: 3 })).toMatchObject({ truncated: false });
});

test("skips binary files, links and pipes", async () => {
  const { call, refusal, path, outside } = await testRoot({ "a.txt": "SECRET here", "b.bin": "SECRET\0" });
  await symlink(outside, join(path, "out"));
  await symlink(join(outside, "secret.txt"), join(path, "link"));
  execFileSync("mkfifo", [join(path, "pipe")]);

  expect(await call("grep", { pattern: "SECRET" })).toMatchObject({
    matches: [{ path: "a.txt" }],
    files_searched: 1,
    files_skipped: 1,
  });
  expect((await refusal("grep", { pattern: "x", path: "b.bin" })).code).toBe("unsupported_content");
});

test("shows the matching part of a long line", async () => {
  const { call } = await testRoot({ "a.txt": `${"-".repeat(10_000)}needle${"-".repeat(10_000)}` });

  const [match] = (await call("grep", { pattern: "needle" })).matches as { text: string }[];

  expect(match?.text).toContain("needle");
  expect(match?.text.length).toBeLessThanOrEqual(400);
});

test.each([["(?=a)"], ["(?<!a)b"], ["(a)\\1"], ["("], ["a{2000}"]])(
  "refuses the pattern %s and says why",
  async (pattern) => {
    const { refusal } = await testRoot();

    const error = await refusal("grep", { pattern });

    expect(error).toMatchObject({ code: "invalid_arguments", hint: expect.stringContaining("RE2") });
  },
);

test("takes linear time on patterns that make a backtracking engine hang", async () => {
  const { call } = await testRoot({ "a.txt": `${"a".repeat(50_000)}!` });

  expect(await call("grep", { pattern: "^(a+)+$" })).toMatchObject({ matches: [] });
});

test("stops when the call is cancelled", async () => {
  const files = Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`${index}.txt`, "text\n".repeat(1000)]));
  const { call } = await testRoot(files);
  const cancel = new AbortController();

  const answer = call("grep", { pattern: "nothing" }, cancel.signal);
  setTimeout(() => cancel.abort(), 5);

  await expect(answer).rejects.toThrow(/abort/i);
});
