import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type SqlDriver, sql } from "../sql.ts";
import { openSqlite, type SqliteOptions } from "./sqlite.ts";

test("creates the file and its folder, readable for the owner only", async () => {
  const folder = join(temporaryFolder(), "not", "there");

  const db = await opened(join(folder, "store.db"));
  await db.all(sql`create table t (v text)`);

  expect(statSync(folder).mode & 0o777).toBe(0o700);
  for (const file of ["store.db", "store.db-wal", "store.db-shm"]) {
    expect(statSync(join(folder, file)).mode & 0o077).toBe(0);
  }
});

test("uses WAL, normal synchronous mode and foreign keys", async () => {
  const db = await opened(join(temporaryFolder(), "store.db"));

  const settings = [
    await db.all(sql`pragma journal_mode`),
    await db.all(sql`pragma synchronous`),
    await db.all(sql`pragma foreign_keys`),
  ].flat();

  expect(settings).toEqual([{ journal_mode: "wal" }, { synchronous: 1 }, { foreign_keys: 1 }]);
});

test("waits for another writer of the file without blocking the process", async () => {
  const path = join(temporaryFolder(), "store.db");
  const [one, other] = [await opened(path), await opened(path)];
  await one.all(sql`create table t (v text)`);

  let waiting: Promise<unknown> = Promise.resolve();
  await one.transaction(async (tx) => {
    await tx.all(sql`insert into t values (${"one"})`);
    waiting = Promise.all([
      other.all(sql`insert into t values (${"plain"}) returning v`),
      other.transaction((its) => its.all(sql`insert into t values (${"other"})`)),
    ]);
    await new Promise((resolve) => setTimeout(resolve, 60));
  });
  await waiting;

  expect(await one.all(sql`select v from t`)).toEqual([{ v: "one" }, { v: "plain" }, { v: "other" }]);
});

test("fails with a clear error if the file stays locked", async () => {
  const path = join(temporaryFolder(), "store.db");
  const [one, other] = [await opened(path), await opened(path, { lockWaitMs: 50 })];

  await one.transaction(async () => {
    const locked = {
      code: "store_failed",
      message: expect.stringContaining("locked by another"),
      cause: expect.any(Error),
    };
    await expect(other.transaction(async () => "never")).rejects.toMatchObject(locked);
    await expect(other.all(sql`create table t (v text)`)).rejects.toMatchObject(locked);
  });

  await expect(other.transaction(async () => "now")).resolves.toBe("now");
});

test("opens a new file in several connections at once", async () => {
  const path = join(temporaryFolder(), "store.db");

  const all = await Promise.all(Array.from({ length: 8 }, () => opened(path)));

  await Promise.all(all.map((db) => db.all(sql`create table if not exists t (v text)`)));
  await Promise.all(all.map((db) => db.all(sql`insert into t values (${"x"})`)));
  expect(await all[0]?.all(sql`select count(*) as n from t`)).toEqual([{ n: 8 }]);
});

test("rolls back a transaction that fills the disk", async () => {
  const db = await opened(join(temporaryFolder(), "store.db"));
  await db.all(sql`create table t (v text)`);
  await db.all(sql`pragma max_page_count = 10`);

  const filling = db.transaction(async (tx) => {
    await tx.all(sql`insert into t values (${"first"})`);
    await tx.all(sql`insert into t values (${"x".repeat(100_000)})`);
  });

  await expect(filling).rejects.toMatchObject({
    code: "store_failed",
    message: expect.stringContaining("the disk is full"),
    hint: expect.stringContaining("Free some space"),
    cause: expect.any(Error),
  });
  expect(await db.all(sql`select v from t`)).toEqual([]);
});

test.each([
  [
    "a file that is no database",
    "is not a SQLite database",
    (path: string) => writeFileSync(path, "plain text ".repeat(500)),
  ],
  ["a folder", "is a folder", (path: string) => mkdirSync(path)],
])("refuses %s, and does not change it", async (_what, message, make) => {
  const path = join(temporaryFolder(), "store.db");
  make(path);

  const opening = openSqlite(path);

  await expect(opening).rejects.toMatchObject({
    code: "store_failed",
    message: `the store ${path} ${message}`,
    hint: expect.any(String),
    cause: expect.any(Error),
  });
  expect(existsSync(`${path}-wal`)).toBe(false);
});

test("refuses a path below a file", async () => {
  const file = join(temporaryFolder(), "file");
  writeFileSync(file, "");

  await expect(openSqlite(join(file, "store.db"))).rejects.toMatchObject({
    code: "store_failed",
    message: expect.stringContaining("not a folder"),
  });
});

test("limits the number of prepared statements", async () => {
  const db = await opened(":memory:");

  for (let at = 0; at < 600; at++) {
    const name = { parts: [`select 1 as n${at}`], values: [] };
    expect(await db.all(name)).toEqual([{ [`n${at}`]: 1 }]);
  }
});

async function opened(path: string, options?: SqliteOptions): Promise<SqlDriver> {
  const db = await openSqlite(path, options);
  onTestFinished(() => db.close());
  return db;
}

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "qm-sqlite-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}
