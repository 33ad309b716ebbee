import { mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { loadConfig } from "./config-file.ts";
import { addConfiguredServers, removeConfiguredServer } from "./edit-config.ts";

let folder: string;
let path: string;
let ids = 0;
const options = { now: () => new Date("2026-01-02T03:04:05.678Z"), newId: () => `id${++ids}` };
const memory = { command: "npx", args: ["-y", "memory@1.2.3"], env: { KEY: `\${secret:KEY}` } };

beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "qm-edit-")));
  path = join(folder, "quartermaster.yaml");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

test("creates a missing file", async () => {
  expect(await addConfiguredServers(path, { memory }, options)).toEqual({ path });

  const { config } = await loadConfig(path, { cwd: folder });
  expect(config.servers.memory).toMatchObject(memory);
});

test("keeps comments and order, and backs up the former file", async () => {
  const before = `# mine\npolicy:\n  denied: [file__delete] # never\n\nservers:\n  # the first\n  one:\n    command: one\n`;
  await writeFile(path, before);

  const { backup = "" } = await addConfiguredServers(path, { memory }, options);

  const after = await readFile(path, "utf8");
  expect(after.startsWith(before)).toBe(true);
  expect(after.slice(before.length)).toContain("  memory:\n    command: npx\n");
  expect(await readFile(backup, "utf8")).toBe(before);
  await removeConfiguredServer(path, "memory", options);
  expect(await readFile(path, "utf8")).toBe(before);
});

test.each([
  "servers: {}\n",
  "servers: {one: {command: one}}",
  "{}\n",
  "policy: {}",
  "",
  "# nothing yet\n",
  "servers:\n    one:\n        command: one # the first\n        args: [\n          a\n        ]\n# behind\npolicy: {}\n",
])("adds to %j", async (before) => {
  await writeFile(path, before);

  await addConfiguredServers(path, { memory }, options);

  expect((await loadConfig(path, { cwd: folder })).config.servers.memory).toMatchObject(memory);
  await removeConfiguredServer(path, "memory", options);
  expect((await loadConfig(path, { cwd: folder })).config.servers.memory).toBeUndefined();
});

test("changes nothing for a taken name, an unknown server and an invalid entry", async () => {
  const before = "servers:\n  memory: { command: other }\n";
  await writeFile(path, before);

  await expect(addConfiguredServers(path, { memory }, options)).rejects.toMatchObject({ code: "conflict" });
  await expect(addConfiguredServers(path, { "Not A Name": memory }, options)).rejects.toMatchObject({
    code: "invalid_config",
  });
  await expect(
    addConfiguredServers(path, { both: { ...memory, url: "https://example.com" } }, options),
  ).rejects.toMatchObject({
    code: "invalid_config",
  });
  await expect(removeConfiguredServer(path, "nobody", options)).rejects.toMatchObject({ code: "not_found" });
  expect(await readFile(path, "utf8")).toBe(before);
  expect(await readdir(folder)).toEqual(["quartermaster.yaml"]);
});

test("does not write to an invalid file", async () => {
  await writeFile(path, "servers: [1, 2]\n");

  await expect(addConfiguredServers(path, { memory }, options)).rejects.toMatchObject({ code: "invalid_config" });
  expect(await readFile(path, "utf8")).toBe("servers: [1, 2]\n");
});

test("writes through a link", async () => {
  const real = join(folder, "real.yaml");
  await writeFile(real, "{}\n");
  await symlink(real, path);

  await addConfiguredServers(path, { memory }, options);

  expect(await readFile(real, "utf8")).toContain("memory:");
  expect(await realpath(path)).toBe(real);
});

test("loses no concurrent write, and backs up each former file", async () => {
  await writeFile(path, "policy: {}\n");
  const names = Array.from({ length: 8 }, (_, index) => `server-${index}`);

  const edits = await Promise.all(
    names.map((name) => addConfiguredServers(path, { [name]: { command: name } }, options)),
  );

  const { config } = await loadConfig(path, { cwd: folder });
  expect(Object.keys(config.servers).sort()).toEqual(names);
  const backups = await Promise.all(edits.map(({ backup = "" }) => readFile(backup, "utf8")));
  expect(new Set(backups).size).toBe(names.length);
  expect((await readdir(folder)).filter((name) => !name.includes(".bak-"))).toEqual(["quartermaster.yaml"]);
});

test("returns both configurations, and writes nothing when beforeWriting fails", async () => {
  await writeFile(path, `servers:\n  one: { command: one, env: { A: "\${secret:A}" } }\n  two: { command: two }\n`);
  const before = await readFile(path, "utf8");
  const refusing = { ...options, beforeWriting: () => Promise.reject(new Error("not now")) };

  await expect(addConfiguredServers(path, { memory }, refusing)).rejects.toThrow("not now");
  expect(await readFile(path, "utf8")).toBe(before);
  const removal = await removeConfiguredServer(path, "one", options);

  expect(Object.keys(removal.before.config.servers)).toEqual(["one", "two"]);
  expect(removal.before.references).toEqual([{ key: "servers.one.env.A", variable: "secret:A" }]);
  expect(removal.after.references).toEqual([]);
});

test("leaves a valid configuration when the last server is removed", async () => {
  await writeFile(path, "servers:\n  memory: { command: memory }\n");

  await removeConfiguredServer(path, "memory", options);

  expect(await readFile(path, "utf8")).toBe("{}\n");
});
