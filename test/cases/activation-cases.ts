import assert from "node:assert/strict";
import { HALF_LIFE_MS } from "../../src/activation/usage-tracker.ts";
import { createSqlActionUseStore, createSqlActivationStore } from "../../src/store/activation.ts";
import { migrate } from "../../src/store/migrations.ts";
import { type SqlDriver, sql } from "../../src/store/sql.ts";
import { defineCases } from "./store-cases.ts";

const start = new Date("2026-01-02T03:04:05.678Z");
const later = new Date(start.getTime() + HALF_LIFE_MS);

export const shelfStoreCases = defineCases(openShelves, {
  "keeps the names of a shelf in the order of their first put": async (shelves) => {
    assert.deepEqual(await shelves.put("s", ["b", "a", "b"]), ["b", "a"]);
    assert.deepEqual(await shelves.put("s", ["a", "c"]), ["c"]);
    assert.deepEqual(await shelves.put("s", ["c"]), []);
    assert.deepEqual(await shelves.put("s", []), []);

    assert.deepEqual(await shelves.read("s"), ["b", "a", "c"]);
  },
  "keeps shelves with similar names apart": async (shelves) => {
    const keys = ["", "s", "S", "s ", '["s"]', "☂", "s%"];

    for (const key of keys) assert.deepEqual(await shelves.put(key, [key, "x"]), [key, "x"]);

    for (const key of keys) assert.deepEqual(await shelves.read(key), [key, "x"]);
    assert.deepEqual(await shelves.read("never used"), []);
  },
  "reports a name as added to only one of several concurrent callers": async (shelves, db) => {
    const answers = await Promise.all(Array.from({ length: 20 }, (_, at) => shelves.put("s", ["same", `n${at % 10}`])));

    const names = ["same", ...Array.from({ length: 10 }, (_, at) => `n${at}`)];
    assert.deepEqual(answers.flat().sort(), [...names].sort());
    assert.deepEqual([...(await shelves.read("s"))].sort(), [...names].sort());
    const rows = await db.all(sql`select distinct position from shelves where shelf = ${"s"}`);
    assert.equal(rows.length, names.length);
  },
});

export const actionUseStoreCases = defineCases(openUses, {
  "sums uses as of the last use": async (uses) => {
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
  "decays a use that is added late": async (uses) => {
    await uses.add("o", [{ action: "a", weight: 1, at: later }]);
    await uses.add("o", [
      { action: "a", weight: 2, at: start },
      { action: "a", weight: 2, at: start },
    ]);

    assert.deepEqual(await uses.read("o"), [{ action: "a", weight: 3, at: later }]);
  },
  "keeps owners apart, and loses no concurrent use": async (uses) => {
    await Promise.all(
      Array.from({ length: 30 }, (_, at) => uses.add(`o${at % 2}`, [{ action: "a", weight: 1, at: start }])),
    );

    for (const owner of ["o0", "o1"])
      assert.deepEqual(await uses.read(owner), [{ action: "a", weight: 15, at: start }]);
    assert.deepEqual(await uses.read("o2"), []);
  },
});

async function openShelves(db: SqlDriver) {
  await migrate(db);
  return createSqlActivationStore(db, () => start);
}

async function openUses(db: SqlDriver) {
  await migrate(db);
  return createSqlActionUseStore(db);
}

async function sorted<T extends { readonly action: string }>(uses: Promise<readonly T[]>): Promise<readonly T[]> {
  return [...(await uses)].sort((a, b) => (a.action < b.action ? -1 : 1));
}
