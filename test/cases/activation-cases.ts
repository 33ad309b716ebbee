import assert from "node:assert/strict";
import { HALF_LIFE_MS } from "../../src/activation/usage-tracker.ts";
import { createSqlActionUseStore, createSqlActivationStore } from "../../src/store/activation.ts";
import { migrate } from "../../src/store/migrations.ts";
import { type SqlDriver, sql } from "../../src/store/sql.ts";
import type { StoreCase } from "./store-cases.ts";

const start = new Date("2026-01-02T03:04:05.678Z");
const later = new Date(start.getTime() + HALF_LIFE_MS);

export const shelfStoreCases: readonly StoreCase[] = [
  {
    name: "keeps the names of a shelf in the order in which they were first put there",
    async run(db) {
      const shelves = await migratedShelves(db);

      assert.deepEqual(await shelves.put("s", ["b", "a", "b"]), ["b", "a"]);
      assert.deepEqual(await shelves.put("s", ["a", "c"]), ["c"]);
      assert.deepEqual(await shelves.put("s", ["c"]), []);
      assert.deepEqual(await shelves.put("s", []), []);

      assert.deepEqual(await shelves.read("s"), ["b", "a", "c"]);
    },
  },
  {
    name: "keeps shelves apart, whatever they are called",
    async run(db) {
      const shelves = await migratedShelves(db);
      const keys = ["", "s", "S", "s ", '["s"]', "☂", "s%"];

      for (const key of keys) assert.deepEqual(await shelves.put(key, [key, "x"]), [key, "x"]);

      for (const key of keys) assert.deepEqual(await shelves.read(key), [key, "x"]);
      assert.deepEqual(await shelves.read("never used"), []);
    },
  },
  {
    name: "answers a name to one of all who put it on a shelf at the same time, and gives every name a place",
    async run(db) {
      const shelves = await migratedShelves(db);

      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, at) => shelves.put("s", ["same", `n${at % 10}`])),
      );

      const names = ["same", ...Array.from({ length: 10 }, (_, at) => `n${at}`)];
      assert.deepEqual(answers.flat().sort(), [...names].sort());
      assert.deepEqual([...(await shelves.read("s"))].sort(), [...names].sort());
      const rows = await db.all(sql`select distinct position from shelves where shelf = ${"s"}`);
      assert.equal(rows.length, names.length);
    },
  },
];

export const actionUseStoreCases: readonly StoreCase[] = [
  {
    name: "adds up what is used, as of the last use",
    async run(db) {
      const uses = await migratedUses(db);

      await uses.add("o", [
        { action: "a", weight: 4, at: start },
        { action: "b", weight: 1, at: start },
      ]);
      await uses.add("o", [{ action: "a", weight: 1, at: later }]);
      await uses.add("o", []);

      assert.deepEqual(await sorted(uses.read("o")), [
        { action: "a", weight: 3, at: later },
        { action: "b", weight: 1, at: start },
      ]);
    },
  },
  {
    name: "takes what comes late for what it is worth by now",
    async run(db) {
      const uses = await migratedUses(db);

      await uses.add("o", [{ action: "a", weight: 1, at: later }]);
      await uses.add("o", [
        { action: "a", weight: 2, at: start },
        { action: "a", weight: 2, at: start },
      ]);

      assert.deepEqual(await uses.read("o"), [{ action: "a", weight: 3, at: later }]);
    },
  },
  {
    name: "keeps owners apart, and loses nothing when many add at once",
    async run(db) {
      const uses = await migratedUses(db);

      await Promise.all(
        Array.from({ length: 30 }, (_, at) => uses.add(`o${at % 2}`, [{ action: "a", weight: 1, at: start }])),
      );

      for (const owner of ["o0", "o1"])
        assert.deepEqual(await uses.read(owner), [{ action: "a", weight: 15, at: start }]);
      assert.deepEqual(await uses.read("o2"), []);
    },
  },
];

async function migratedShelves(db: SqlDriver) {
  await migrate(db);
  return createSqlActivationStore(db, () => start);
}

async function migratedUses(db: SqlDriver) {
  await migrate(db);
  return createSqlActionUseStore(db);
}

async function sorted<T extends { readonly action: string }>(uses: Promise<readonly T[]>): Promise<readonly T[]> {
  return [...(await uses)].sort((a, b) => (a.action < b.action ? -1 : 1));
}
