import assert from "node:assert/strict";
import type { LeaseHolder } from "../../src/core/lease.ts";
import { createSqlLockStore } from "../../src/store/locks.ts";
import { migrate } from "../../src/store/migrations.ts";
import { type SqlDriver, sql } from "../../src/store/sql.ts";
import { createSqlVectorStore } from "../../src/store/vectors.ts";
import type { StoreCase } from "./store-cases.ts";

const start = new Date("2026-01-02T03:04:05.678Z");
const HOUR = 60 * 60 * 1000;

export const vectorStoreCases: readonly StoreCase[] = [
  {
    name: "gives vectors back bit for bit, and only those asked for",
    async run(db) {
      const { vectors } = await migrated(db);
      const odd = new Float32Array([0, -0, 1, -1, 0.1, 1e-40, 3.4e38, Math.fround(Math.PI)]);

      await vectors.write("m", rows({ a: odd, b: [1, 2], c: [3, 4] }));

      const read = await readAll(vectors, "m", ["a", "c", "unknown"]);
      assert.deepEqual([...read.keys()].sort(), ["a", "c"]);
      assert.deepEqual(read.get("a"), odd);
      assert.deepEqual([...(await vectors.known("m", ["b", "unknown"]))], ["b"]);
      assert.equal((await vectors.known("n", ["a", "b"])).size, 0);
    },
  },
  {
    name: "keeps vectors in bytes that every machine reads the same",
    async run(db) {
      const { vectors } = await migrated(db);

      await vectors.write("m", rows({ a: [1, -2] }));

      const [row] = await db.all(sql`select vector from vectors`);
      assert.deepEqual([...((row?.vector as Uint8Array) ?? [])], [0, 0, 128, 63, 0, 0, 0, 192]);
    },
  },
  {
    name: "keeps models apart, and puts a newer vector in the place of an older one",
    async run(db) {
      const { vectors } = await migrated(db);

      await vectors.write("m", rows({ a: [1] }));
      await vectors.write("n", rows({ a: [2] }));
      await vectors.write("m", rows({ a: [3], b: [4] }));
      await vectors.write("m", rows({}));

      assert.deepEqual(await readAll(vectors, "m", ["a", "b"]), rows({ a: [3], b: [4] }));
      assert.deepEqual(await readAll(vectors, "n", ["a", "b"]), rows({ a: [2] }));
      assert.deepEqual(await readAll(vectors, "m", []), rows({}));
    },
  },
  {
    name: "takes more vectors than fit into one statement",
    async run(db) {
      const { vectors, clock } = await migrated(db);
      const names = Array.from({ length: 40_000 }, (_, at) => `h${at}`);

      await vectors.write("m", new Map(names.map((name) => [name, new Float32Array([1])])));
      clock.hours = 25;
      await vectors.touch("m", names);

      assert.equal((await vectors.known("m", names)).size, names.length);
      assert.equal((await readAll(vectors, "m", names)).size, names.length);
      await vectors.prune(new Date(start.getTime() + 24 * HOUR));
      assert.deepEqual(await vectors.clear(), { rows: names.length });
    },
  },
  {
    name: "knows which sets are complete, and when they were last used",
    async run(db) {
      const { vectors, clock } = await migrated(db);
      const set = { catalog: "c", model: "m" };

      assert.equal(await vectors.lastUse(set), undefined);
      await vectors.complete(set);
      assert.deepEqual(await vectors.lastUse(set), start);
      clock.hours = 30;
      await vectors.complete(set);

      assert.deepEqual(await vectors.lastUse(set), new Date(start.getTime() + 30 * HOUR));
      assert.equal(await vectors.lastUse({ ...set, model: "n" }), undefined);
      assert.equal(await vectors.lastUse({ ...set, catalog: "d" }), undefined);
    },
  },
  {
    name: "prunes what was not used since, and notes a use at most once a day",
    async run(db) {
      const { vectors, clock } = await migrated(db);
      await vectors.write("m", rows({ a: [1], b: [1] }));
      await vectors.write("n", rows({ a: [1] }));
      await vectors.complete({ catalog: "old", model: "m" });
      clock.hours = 23;
      await vectors.touch("m", ["b"]);
      assert.deepEqual(await usedAt(db, "b"), [start.toISOString()]);
      clock.hours = 25;
      await vectors.touch("m", ["b", "unknown"]);
      await vectors.complete({ catalog: "new", model: "m" });

      await vectors.prune(new Date(start.getTime() + 24 * HOUR));

      assert.deepEqual([...(await vectors.known("m", ["a", "b"]))], ["b"]);
      assert.equal((await vectors.known("n", ["a"])).size, 0);
      assert.equal(await vectors.lastUse({ catalog: "old", model: "m" }), undefined);
      assert.notEqual(await vectors.lastUse({ catalog: "new", model: "m" }), undefined);
    },
  },
  {
    name: "clears everything, and says how much that was",
    async run(db) {
      const { vectors } = await migrated(db);
      await vectors.write("m", rows({ a: [1], b: [1] }));
      await vectors.write("n", rows({ a: [1] }));
      await vectors.complete({ catalog: "c", model: "m" });

      assert.deepEqual(await vectors.clear(), { rows: 3 });
      assert.deepEqual(await vectors.clear(), { rows: 0 });

      assert.equal((await vectors.known("m", ["a", "b"])).size, 0);
      assert.equal(await vectors.lastUse({ catalog: "c", model: "m" }), undefined);
    },
  },
];

const isOver = (): boolean => true;
const isHeld = (): boolean => false;

export const lockStoreCases: readonly StoreCase[] = [
  {
    name: "gives a lock to one of many that want it at the same time, and another to another",
    async run(db) {
      const { locks } = await migrated(db);

      const taken = await Promise.all(Array.from({ length: 10 }, (_, at) => locks.take("l", holder(`h${at}`), isHeld)));

      assert.equal(taken.filter(Boolean).length, 1);
      assert.equal(await locks.take("other", holder("h99"), isHeld), true);
    },
  },
  {
    name: "shows who has a lock, and gives it away once he is said to have it no longer",
    async run(db) {
      const { locks } = await migrated(db);
      await locks.take("l", holder("first", 123), isHeld);
      const seen: LeaseHolder[] = [];

      const taken = await Promise.all(
        ["second", "third"].map((id) =>
          locks.take("l", holder(id), (other) => {
            if (other.id === "first") seen.push(other);
            return other.id === "first";
          }),
        ),
      );

      assert.deepEqual(seen[0], holder("first", 123));
      assert.equal(taken.filter(Boolean).length, 1);
      assert.equal(await locks.renew("l", holder("first")), false);
    },
  },
  {
    name: "does not take a lock from a holder that has come back meanwhile",
    async run(db) {
      const { locks } = await migrated(db);
      await locks.take("l", holder("first"), isHeld);
      const later = { ...holder("first"), leaseUntil: new Date(start.getTime() + HOUR) };
      let renewed: Promise<boolean> = Promise.resolve(false);

      const taken = await locks.take("l", holder("second"), () => {
        renewed = locks.renew("l", later); // asked for before the other's next statement
        return true;
      });

      assert.deepEqual([await renewed, taken], [true, false]);
    },
  },
  {
    name: "frees a lock for its holder only",
    async run(db) {
      const { locks } = await migrated(db);
      await locks.take("l", holder("first"), isHeld);

      await locks.release("l", "second");
      assert.equal(await locks.take("l", holder("second"), isHeld), false);
      await locks.release("l", "first");

      assert.equal(await locks.take("l", holder("second"), isHeld), true);
      assert.equal(await locks.take("l", holder("third"), isOver), true);
    },
  },
];

function holder(id: string, pid = 1): LeaseHolder {
  return { id, pid, host: "here", leaseUntil: start };
}

function rows(vectors: Record<string, Iterable<number>>): Map<string, Float32Array> {
  return new Map(Object.entries(vectors).map(([hash, numbers]) => [hash, new Float32Array(numbers)]));
}

async function readAll(vectors: ReturnType<typeof createSqlVectorStore>, model: string, hashes: readonly string[]) {
  const read = new Map<string, Float32Array>();
  await vectors.read(model, hashes, (hash, vector) => read.set(hash, vector));
  return new Map([...read].sort());
}

async function usedAt(db: SqlDriver, hash: string): Promise<readonly unknown[]> {
  return (await db.all(sql`select used_at from vectors where hash = ${hash}`)).map((row) => row.used_at);
}

async function migrated(db: SqlDriver) {
  await migrate(db);
  const clock = { hours: 0 };
  const now = () => new Date(start.getTime() + clock.hours * HOUR);
  return { vectors: createSqlVectorStore(db, now), locks: createSqlLockStore(db), clock };
}
