import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openSqlite } from "./drivers/sqlite.ts";
import { type Migration, migrate } from "./migrations.ts";
import { type SqlDriver, sql } from "./sql.ts";

const first: Migration = { name: "first", statements: () => [sql`create table t (v text)`] };
const second: Migration = { name: "second", statements: () => [sql`insert into t values (${"second"})`] };
const broken: Migration = { name: "broken", statements: () => [sql`drop table t`, sql`no such statement`] };

test("takes each step once, and only the new ones later", async () => {
  const db = await opened(":memory:");

  await migrate(db, [first]);
  await migrate(db, [first, second]);
  await migrate(db, [first, second]);

  expect(await db.all(sql`select v from t`)).toEqual([{ v: "second" }]);
  expect(await db.all(sql`select version from schema_version`)).toEqual([{ version: 2 }]);
});

test("takes no step when one fails", async () => {
  const db = await opened(":memory:");
  await migrate(db, [first]);

  await expect(migrate(db, [first, second, broken])).rejects.toMatchObject({ code: "store_failed" });

  expect(await db.all(sql`select v from t`)).toEqual([]);
  expect(await db.all(sql`select version from schema_version`)).toEqual([{ version: 1 }]);
});

test("refuses a store that a newer program has written", async () => {
  const db = await opened(":memory:");
  await migrate(db, [first, second]);

  await expect(migrate(db, [first])).rejects.toMatchObject({
    code: "store_failed",
    message: "the store has version 2, this program knows 1",
    hint: expect.stringContaining("Upgrade"),
  });
});

test("lets several openers of a new store take the steps once", async () => {
  const folder = mkdtempSync(join(tmpdir(), "qm-migrations-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const all = await Promise.all(Array.from({ length: 4 }, () => opened(join(folder, "store.db"))));

  await Promise.all(all.map((db) => migrate(db, [first, second])));

  expect(await all[0]?.all(sql`select v from t`)).toEqual([{ v: "second" }]);
});

async function opened(path: string): Promise<SqlDriver> {
  const db = await openSqlite(path);
  onTestFinished(() => db.close());
  return db;
}
