import { symlink } from "node:fs/promises";
import { afterEach, expect, test } from "vitest";
import { getValidator } from "../../core/schema-validator.ts";
import { fileProvider } from "./file-provider.ts";
import { removeTestRoots, testRoot } from "./testing.ts";

afterEach(removeTestRoots);

const all = await fileProvider({ root: "/srv/files" }).list();

test("offers eight actions with their effects", () => {
  expect(
    Object.fromEntries(all.map(({ name, effect, idempotent, tags }) => [name, [effect, idempotent, tags.join(" ")]])),
  ).toEqual({
    file__delete: ["write", false, "file write destructive"],
    file__edit: ["write", false, "file write"],
    file__glob: ["read", true, "file read"],
    file__grep: ["read", true, "file read"],
    file__list: ["read", true, "file read"],
    file__read: ["read", true, "file read"],
    file__watch: ["read", true, "file read"],
    file__write: ["write", false, "file write"],
  });
});

test("offers nothing that writes when it is read-only", async () => {
  const actions = await fileProvider({ root: "/srv/files", readOnly: true }).list();

  expect(actions.map(({ effect }) => effect)).toEqual(["read", "read", "read", "read", "read"]);
});

test.each([[true], [false]])("says what it is for without naming an action (readOnly: %s)", (readOnly) => {
  const { capability } = fileProvider({ root: "/srv/files", readOnly });

  for (const { entry } of all) expect(capability.toLowerCase()).not.toMatch(new RegExp(`\\b${entry}`));
});

test("write tells the model to change a part with edit", () => {
  expect(all.find(({ entry }) => entry === "write")?.description).toMatch(/part of a file, use edit/);
});

test.each(all.map((action) => [action.entry, action] as const))(
  "%s: schema closed and short, examples fit",
  (_entry, action) => {
    expect(action.inputSchema).toMatchObject({ type: "object", additionalProperties: false });
    expect(JSON.stringify(action.inputSchema).length).toBeLessThan(1100);
    for (const { args } of action.examples) {
      expect(getValidator(action.inputSchema, "arguments")(structuredClone(args), 100)).toEqual([]);
    }
  },
);

test.each([
  [{ root: "" }, /not a path/],
  [{ root: "a\0b" }, /not a path/],
  [{ root: "x", maxReadBytes: 0 }, /maxReadBytes/],
  [{ root: "x", maxVisited: 1.5 }, /maxVisited/],
])("refuses the options %j", (options, message) => {
  expect(() => fileProvider(options)).toThrow(message);
});

test("a root behind a link is fine, and absolute paths by either name", async () => {
  const { path, call } = await testRoot({ "a.txt": "text" }, {});
  await symlink(path, `${path}-link`);
  const linked = await testRoot({}, { root: `${path}-link` });

  for (const name of ["a.txt", `${path}/a.txt`, `${path}-link/a.txt`]) {
    expect(await linked.call("read", { path: name })).toMatchObject({ path: "a.txt", content: "text" });
  }
  expect(await call("read", { path: "a.txt" })).toMatchObject({ content: "text" });
});
