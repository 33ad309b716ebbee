import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { announceServer, findAnnouncedServer } from "./approval-links.ts";

let folder: string;
let path: string;
const URL_HERE = "http://127.0.0.1:7499/mcp";
const alive = { isAlive: () => true };

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "qm-serving-"));
  path = join(folder, "address");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

test("announces the address in a private file until it ends", async () => {
  const stop = await announceServer(path, URL_HERE, { pid: 7, unique: "a" });

  expect((await findAnnouncedServer(path, { isAlive: (pid) => pid === 7 }))?.href).toBe(URL_HERE);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  await stop();
  expect(await findAnnouncedServer(path, alive)).toBeUndefined();
  expect(await readdir(folder)).toEqual([]);
});

test("ignores the address of a dead process, and the next one replaces it", async () => {
  await announceServer(path, URL_HERE, { pid: 7, unique: "a" });

  expect(await findAnnouncedServer(path, { isAlive: () => false })).toBeUndefined();
  await announceServer(path, "http://127.0.0.1:7500/mcp", { pid: 8, unique: "b" });
  expect((await findAnnouncedServer(path, alive))?.port).toBe("7500");
});

test("does not remove the address of a later process", async () => {
  const stop = await announceServer(path, URL_HERE, { pid: 7, unique: "a" });
  await announceServer(path, "http://127.0.0.1:7500/mcp", { pid: 8, unique: "b" });

  await stop();

  expect(JSON.parse(await readFile(path, "utf8"))).toEqual({ url: "http://127.0.0.1:7500/mcp", pid: 8 });
});

test.each([
  "",
  "{",
  "null",
  "[]",
  '{"url":"http://x/"}',
  '{"url":"http://x/","pid":-1}',
  '{"url":"http://x/","pid":0}',
  '{"url":"http://x/","pid":1.5}',
  '{"url":"javascript:1","pid":1}',
  '{"url":"http://[","pid":1}',
])("ignores the file %j", async (text) => {
  await writeFile(path, text);

  expect(await findAnnouncedServer(path, alive)).toBeUndefined();
});
