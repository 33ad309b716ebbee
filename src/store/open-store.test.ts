import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openSqlite } from "./drivers/sqlite.ts";
import { openSqliteStore, openStore } from "./open-store.ts";
import { sql } from "./sql.ts";

const now = () => new Date("2026-01-02T03:04:05Z");

test("finds everything after it was closed and opened again", async () => {
  const folder = mkdtempSync(join(tmpdir(), "qm-open-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const first = await openSqliteStore(join(folder, "store.db"), { now });
  await first.events.append([
    { type: "provider.failed", at: now(), session: "s", data: { category: "mcp", reason: "no answer" } },
  ]);
  await first.usage.charge([{ key: "k" }]);
  await first.close();

  const second = await openSqliteStore(join(folder, "store.db"), { now });

  expect(await second.events.read({})).toMatchObject([
    { session: "s", data: { category: "mcp", reason: "no answer" } },
  ]);
  expect(await second.usage.read(["k"])).toEqual(new Map([["k", { calls: 1, ms: 0, bytes: 0 }]]));
  await second.close();
});

test("closes a database that it cannot use", async () => {
  const db = await openSqlite(":memory:");
  await db.all(sql`create table schema_version (version integer not null)`);
  await db.all(sql`insert into schema_version values (${1_000})`);

  await expect(openStore(db, now)).rejects.toMatchObject({ code: "store_failed" });

  await expect(db.all(sql`select 1`)).rejects.toThrow("the store is closed");
});

test.skipIf(process.platform !== "linux")(
  "says no where no folder can be made, and does not try for ever",
  async () => {
    await expect(openSqliteStore("/proc/nope/store.db", { now })).rejects.toMatchObject({ code: "store_failed" });
  },
);
