import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, onTestFinished, test } from "vitest";
import { cleanUp, start, testWorkspace } from "../src/cli/testing.ts";
import { createQuartermaster } from "../src/index.ts";
import { verifyChains } from "../src/ledger/verify-chains.ts";
import { openSqlite } from "../src/store/drivers/sqlite.ts";
import { openSqliteStore, type Store } from "../src/store/open-store.ts";
import { sql } from "../src/store/sql.ts";
import { findCompiled } from "./support/compiled.ts";

afterEach(cleanUp);

test("leaves every event in the file when the last of several processes has ended", async () => {
  const path = join(temporaryFolder(), "store.db");

  const processes = ["a", "b", "c"].map((name) => startCalling(path, name, 40));
  expect(await Promise.all(processes.map(({ ended }) => ended))).toEqual([0, 0, 0]);

  expect(getSize(`${path}-wal`)).toBe(0);
  const { calls, broken } = await readCopy(path);
  expect(processes.flatMap(({ answered }) => answered).filter((id) => !calls.has(id))).toEqual([]);
  expect(broken).toEqual([]);
}, 60_000);

test("leaves every event in the file when qm has ended, and when a program has closed the store", async () => {
  const cwd = await testWorkspace();
  const store = join(cwd, ".quartermaster/quartermaster.db");
  expect((await start(cwd, ["invoke", "file__read", '{"path":"a.txt"}']).ended).code).toBe(0);
  expect((await readCopy(store)).calls.size).toBe(1);

  const quartermaster = await createQuartermaster({ store });
  await quartermaster.invoke("tool__unknown");
  await quartermaster.close();
  expect((await readCopy(store)).calls.size).toBe(2);
}, 60_000);

test("moves what a killed process left in the log into the file at the next close", async () => {
  const path = join(temporaryFolder(), "store.db");
  const killed = startCalling(path, "killed", 1_000_000);
  await expect.poll(() => killed.answered.length, { timeout: 30_000 }).toBeGreaterThan(50);
  killed.child.kill("SIGKILL");
  await killed.ended;
  expect(getSize(`${path}-wal`)).toBeGreaterThan(0);

  expect(await startCalling(path, "late", 1).ended).toBe(0);

  const { calls, broken } = await readCopy(path);
  expect(killed.answered.filter((id) => !calls.has(id))).toEqual([]);
  expect(broken).toEqual([]);
}, 60_000);

test("empties a log that has grown while the store is open", async () => {
  const path = join(temporaryFolder(), "store.db");
  const db = await openSqlite(path);
  onTestFinished(() => db.close());
  await db.all(sql`create table t (v text)`);
  for (let count = 0; count < 80; count++) await db.all(sql`insert into t values (${"x".repeat(100_000)})`);
  expect(getSize(`${path}-wal`)).toBeGreaterThan(8_000_000);

  await expect.poll(() => getSize(`${path}-wal`), { timeout: 30_000 }).toBe(0);

  expect(getSize(path)).toBeGreaterThan(8_000_000);
  await db.all(sql`insert into t values (${"later"})`);
  expect(await db.all(sql`select count(*) as n from t`)).toEqual([{ n: 81 }]);
}, 60_000);

test("closes while another connection reads", async () => {
  const path = join(temporaryFolder(), "store.db");
  const [one, other] = [await openSqlite(path), await openSqlite(path)];
  onTestFinished(() => other.close());
  await one.all(sql`create table t (v text)`);
  await other.transaction(async (tx) => {
    await tx.all(sql`select * from t`);
    await one.close();
    await tx.all(sql`insert into t values (${"written"})`);
  });

  expect(await other.all(sql`select v from t`)).toEqual([{ v: "written" }]);
});

function startCalling(path: string, name: string, limit: number) {
  const script = findCompiled(new URL("fixtures/calling-process.ts", import.meta.url));
  const child: ChildProcess = spawn(process.execPath, [script, path, name, String(limit)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const answered: string[] = [];
  let rest = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    answered.push(...lines);
  });
  return { child, answered, ended: once(child, "close").then(([status]) => status as number | null) };
}

/** The calls in a copy of the file alone, without its log. */
async function readCopy(path: string) {
  const copy = join(temporaryFolder(), "copy.db");
  copyFileSync(path, copy);
  const store = await openSqliteStore(copy, { now: () => new Date() });
  onTestFinished(() => store.close());
  return { calls: await readEndedCalls(store), broken: (await verifyChains(store.events)).broken };
}

async function readEndedCalls({ events }: Store): Promise<ReadonlySet<string | null>> {
  return new Set((await events.read({ type: "call.ended", limit: 1_000_000 })).map(({ callId }) => callId));
}

function getSize(path: string): number {
  return existsSync(path) ? statSync(path).size : 0;
}

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "qm-store-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
