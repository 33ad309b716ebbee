import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openServerLog, readServerLog } from "./server-log.ts";

const now = () => new Date("2026-01-02T03:04:05.678Z");
const STAMP = "2026-01-02T03:04:05.678Z";

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "qm-log-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

test("appends lines to a file that only its owner may read", async () => {
  const path = join(await temporaryFolder(), "logs", "a.log");
  const log = openServerLog({ path, now });
  log.write("one");
  log.write("two");
  await log.close();
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  const again = openServerLog({ path, now });
  again.write("three");
  await again.close();

  expect(await readFile(path, "utf8")).toBe(`${STAMP} one\n${STAMP} two\n${STAMP} three\n`);
  expect((await stat(join(path, ".."))).mode & 0o777).toBe(0o700);
  expect(await readServerLog(path, 2)).toEqual([`${STAMP} two`, `${STAMP} three`]);
});

test("makes a log readable only by its owner", async () => {
  const path = join(await temporaryFolder(), "a.log");
  await writeFile(path, "old\n");
  await chmod(path, 0o644);
  const log = openServerLog({ path, now });
  log.write("new");
  await log.close();

  expect((await stat(path)).mode & 0o777).toBe(0o600);
});

test("rotates the log at a size, keeps one old file and reads both", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "a.log");
  const log = openServerLog({ path, now, maxBytes: 1_000 });
  for (let n = 0; n < 200; n++) {
    log.write(`line ${n}`);
    await log.close();
  }

  expect((await readdir(folder)).sort()).toEqual(["a.log", "a.log.1"]);
  for (const name of ["a.log", "a.log.1"]) expect((await stat(join(folder, name))).size).toBeLessThan(1_100);
  const read = await readServerLog(path, 30);
  expect(read.map((line) => line.replace(`${STAMP} line `, ""))).toEqual(
    Array.from({ length: 30 }, (_, n) => String(170 + n)),
  );
  expect((await readServerLog(path, 1_000)).length).toBeLessThan(100);
});

test("reads only whole lines of a long file", async () => {
  const path = join(await temporaryFolder(), "a.log");
  await writeFile(path, "first\nsecond\nthird\n");

  expect(await readServerLog(path, 10, 10)).toEqual(["third"]);
  expect(await readServerLog(`${path}.none`, 10)).toEqual([]);
});

test("drops and counts lines that come too fast", async () => {
  const path = join(await temporaryFolder(), "a.log");
  const log = openServerLog({ path, now });
  for (let n = 0; n < 10_000; n++) log.write("x".repeat(100));
  await log.close();
  const lines = (await readFile(path, "utf8")).trim().split("\n");

  expect((await stat(path)).size).toBeLessThan(600_000);
  const lost = lines.map((line) => Number(/\((\d+) lines were dropped/.exec(line)?.[1] ?? 0)).reduce((a, b) => a + b);
  expect(lost).toBeGreaterThan(0);
  expect(lines.filter((line) => line.includes("xxx")).length + lost).toBe(10_000);
});

test("ignores a file that it cannot write", async () => {
  const folder = await temporaryFolder();
  await writeFile(join(folder, "file"), "");
  const log = openServerLog({ path: join(folder, "file", "a.log"), now });
  log.write("one");
  await log.close();
  log.write("two");
  await log.close();

  expect(await readServerLog(join(folder, "file", "a.log"), 5)).toEqual([]);
});
