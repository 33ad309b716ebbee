import { mkdir, readdir, readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { removeTestRoots, testRoot } from "./testing.ts";

afterEach(removeTestRoots);

test("removes a file, and an empty folder", async () => {
  const { call, path } = await testRoot({ "folder/a.txt": "" });

  expect(await call("delete", { path: "folder/a.txt" })).toEqual({ path: "folder/a.txt", kind: "file" });
  expect(await call("delete", { path: "folder/" })).toEqual({ path: "folder", kind: "folder" });
  expect(await readdir(path)).toEqual([]);
});

test("does not remove a folder with entries, nor the temporary files in it", async () => {
  const { refusal, path } = await testRoot({ "folder/a.txt": "", "folder/.qm-tmp-1": "" });

  expect(await refusal("delete", { path: "folder" })).toMatchObject({ code: "conflict", details: { entries: 1 } });
  expect((await readdir(join(path, "folder"))).sort()).toEqual([".qm-tmp-1", "a.txt"]);
});

test("removes a link, not its target", async () => {
  const { call, path, outside } = await testRoot({ "a.txt": "kept" });
  await symlink("a.txt", join(path, "in"));
  await symlink(outside, join(path, "out"));
  await symlink("nowhere", join(path, "dangling"));

  for (const name of ["in", "out", "dangling"])
    expect(await call("delete", { path: name })).toEqual({ path: name, kind: "link" });

  expect(await readdir(path)).toEqual(["a.txt"]);
  expect(await readdir(outside)).toEqual(["secret.txt"]);
});

test("does not remove anything through a link that leads outside", async () => {
  const { refusal, path, outside } = await testRoot();
  await symlink(outside, join(path, "out"));

  expect((await refusal("delete", { path: "out/secret.txt" })).code).toBe("path_refused");
  expect(await readFile(join(outside, "secret.txt"), "utf8")).toBe("SECRET");
});

test.each([["."], ["./"], ["<root>"]])("never removes the root: %s", async (path) => {
  const root = await testRoot();

  expect((await root.refusal("delete", { path: path.replace("<root>", root.path) })).code).toBe("path_refused");
});

test("a missing file is not found, with suggestions", async () => {
  const { refusal, path } = await testRoot({ "folder/report.md": "" });
  await mkdir(join(path, "empty"));

  expect(await refusal("delete", { path: "folder/raport.md" })).toMatchObject({
    code: "not_found",
    details: { suggestions: ["folder/report.md"] },
  });
  expect(await refusal("delete", { path: "empty/none/x" })).toMatchObject({
    code: "not_found",
    details: { suggestions: [] },
  });
});
