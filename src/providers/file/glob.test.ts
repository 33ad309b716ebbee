import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { removeTestRoots, testRoot } from "./testing.ts";

afterEach(removeTestRoots);

const files = {
  "a.ts": "",
  "src/b.ts": "",
  "src/deep/c.ts": "",
  "src/d.md": "",
  ".github/ci.yml": "",
  "node_modules/p/i.ts": "",
  ".git/HEAD": "",
};

test("returns matching files, sorted", async () => {
  const { call } = await testRoot(files);

  expect(await call("glob", { pattern: "**/*.ts" })).toEqual({
    paths: ["a.ts", "src/b.ts", "src/deep/c.ts"],
    truncated: false,
  });
  expect(await call("glob", { pattern: "**/*.yml" })).toMatchObject({ paths: [".github/ci.yml"] });
});

test("searches below a folder, and returns paths from the root", async () => {
  const { call } = await testRoot(files);

  expect(await call("glob", { pattern: "*.ts", path: "src" })).toMatchObject({ paths: ["src/b.ts"] });
});

test("enters .git and node_modules only when the pattern names them", async () => {
  const { call } = await testRoot(files);

  expect(await call("glob", { pattern: "node_modules/**/*.ts" })).toMatchObject({ paths: ["node_modules/p/i.ts"] });
  expect(await call("glob", { pattern: "{src,.git}/*" })).toMatchObject({
    paths: [".git/HEAD", "src/b.ts", "src/d.md"],
  });
});

test("lists links, and does not follow them", async () => {
  const { call, path, outside } = await testRoot(files);
  await symlink(outside, join(path, "out"));
  await symlink("a.ts", join(path, "link.ts"));

  expect(await call("glob", { pattern: "out/**" })).toMatchObject({ paths: [] });
  expect(await call("glob", { pattern: "*.ts" })).toMatchObject({ paths: ["a.ts", "link.ts"] });
});

test("reports truncated and incomplete results", async () => {
  const whole = await testRoot(files);
  const bounded = await testRoot(files, { maxVisited: 4 });

  expect(await whole.call("glob", { pattern: "**/*.ts", limit: 2 })).toEqual({
    paths: ["a.ts", "src/b.ts"],
    truncated: true,
  });
  expect(await whole.call("glob", { pattern: "**/*.ts", limit: 3 })).toMatchObject({ truncated: false });
  expect(await bounded.call("glob", { pattern: "**/*.ts" })).toMatchObject({ incomplete: true });
});
