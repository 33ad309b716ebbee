import assert from "node:assert/strict";
import type { LeaseHolder } from "../../src/core/lease.ts";
import { migrate } from "../../src/store/migrations.ts";
import { type SqlDriver, sql } from "../../src/store/sql.ts";
import { createSqlLockStore, createSqlVectorStore } from "../../src/store/vectors.ts";
import { defineCases } from "./store-cases.ts";

const start = new Date("2026-01-02T03:04:05.678Z");
const HOUR = 60 * 60 * 1000;

export const vectorStoreCases = defineCases(openVectors, {
  "returns the requested vectors bit for bit": async ({ vectors }) => {
    const odd = new Float32Array([0, -0, 1, -1, 0.1, 1e-40, 3.4e38, Math.fround(Math.PI)]);

    await vectors.write("m", rows({ a: odd, b: [1, 2], c: [3, 4] }));

    const read = await readAll(vectors, "m", ["a", "c", "unknown"]);
    assert.deepEqual([...read.keys()].sort(), ["a", "c"]);
    assert.deepEqual(read.get("a"), odd);
    assert.deepEqual([...(await vectors.known("m", ["b", "unknown"]))], ["b"]);
    assert.equal((await vectors.known("n", ["a", "b"])).size, 0);
  },
  "stores vectors in little-endian bytes": async ({ vectors }, db) => {
    await vectors.write("m", rows({ a: [1, -2] }));

    const [row] = await db.all(sql`select vector from vectors`);
    assert.deepEqual([...((row?.vector as Uint8Array) ?? [])], [0, 0, 128, 63, 0, 0, 0, 192]);
  },
  "keeps models apart, and replaces older vectors": async ({ vectors }) => {
    await vectors.write("m", rows({ a: [1] }));
    await vectors.write("n", rows({ a: [2] }));
    await vectors.write("m", rows({ a: [3], b: [4] }));
    await vectors.write("m", rows({}));

    assert.deepEqual(await readAll(vectors, "m", ["a", "b"]), rows({ a: [3], b: [4] }));
    assert.deepEqual(await readAll(vectors, "n", ["a", "b"]), rows({ a: [2] }));
    assert.deepEqual(await readAll(vectors, "m", []), rows({}));
  },
  "writes more vectors than fit into one statement": async ({ vectors, clock }) => {
    const names = Array.from({ length: 40_000 }, (_, at) => `h${at}`);

    await vectors.write("m", new Map(names.map((name) => [name, new Float32Array([1])])));
    clock.hours = 25;
    await vectors.touch("m", names);

    assert.equal((await vectors.known("m", names)).size, names.length);
    assert.equal((await readAll(vectors, "m", names)).size, names.length);
    await vectors.prune(new Date(start.getTime() + 24 * HOUR));
    assert.deepEqual(await vectors.clear(), { rows: names.length });
  },
  "records complete sets and their last use": async ({ vectors, clock }) => {
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
  "prunes unused vectors, and records a use at most once a day": async ({ vectors, clock }, db) => {
    await vectors.write("m", rows({ a: [1], b: [1] }));
    await vectors.write("n", rows({ a: [1] }));
    await vectors.complete({ catalog: "old", model: "m" });
    clock.hours = 23;
    await vectors.touch("m", ["b"]);
    assert.deepEqual(await readLastUse(db, "b"), [start.toISOString()]);
    clock.hours = 25;
    await vectors.touch("m", ["b", "unknown"]);
    await vectors.complete({ catalog: "new", model: "m" });

    await vectors.prune(new Date(start.getTime() + 24 * HOUR));

    assert.deepEqual([...(await vectors.known("m", ["a", "b"]))], ["b"]);
    assert.equal((await vectors.known("n", ["a"])).size, 0);
    assert.equal(await vectors.lastUse({ catalog: "old", model: "m" }), undefined);
    assert.notEqual(await vectors.lastUse({ catalog: "new", model: "m" }), undefined);
  },
  "clears everything, and returns the number of rows": async ({ vectors }) => {
    await vectors.write("m", rows({ a: [1], b: [1] }));
    await vectors.write("n", rows({ a: [1] }));
    await vectors.complete({ catalog: "c", model: "m" });

    assert.deepEqual(await vectors.clear(), { rows: 3 });
    assert.deepEqual(await vectors.clear(), { rows: 0 });

    assert.equal((await vectors.known("m", ["a", "b"])).size, 0);
    assert.equal(await vectors.lastUse({ catalog: "c", model: "m" }), undefined);
  },
});

const isOver = (): boolean => true;
const isHeld = (): boolean => false;

export const lockStoreCases = defineCases(openVectors, {
  "gives a lock to one of several concurrent callers": async ({ locks }) => {
    const taken = await Promise.all(Array.from({ length: 10 }, (_, at) => locks.take("l", holder(`h${at}`), isHeld)));

    assert.equal(taken.filter(Boolean).length, 1);
    assert.equal(await locks.take("other", holder("h99"), isHeld), true);
  },
  "passes the holder to the check, and gives the lock away if its lease ended": async ({ locks }) => {
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
  "does not take a lock from a holder that renewed it": async ({ locks }) => {
    await locks.take("l", holder("first"), isHeld);
    const later = { ...holder("first"), leaseUntil: new Date(start.getTime() + HOUR) };
    let renewed: Promise<boolean> = Promise.resolve(false);

    const taken = await locks.take("l", holder("second"), () => {
      renewed = locks.renew("l", later); // asked for before the other's next statement
      return true;
    });

    assert.deepEqual([await renewed, taken], [true, false]);
  },
  "releases a lock only for its holder": async ({ locks }) => {
    await locks.take("l", holder("first"), isHeld);

    await locks.release("l", "second");
    assert.equal(await locks.take("l", holder("second"), isHeld), false);
    await locks.release("l", "first");

    assert.equal(await locks.take("l", holder("second"), isHeld), true);
    assert.equal(await locks.take("l", holder("third"), isOver), true);
  },
});

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

async function readLastUse(db: SqlDriver, hash: string): Promise<readonly unknown[]> {
  return (await db.all(sql`select used_at from vectors where hash = ${hash}`)).map((row) => row.used_at);
}

async function openVectors(db: SqlDriver) {
  await migrate(db);
  const clock = { hours: 0 };
  const now = () => new Date(start.getTime() + clock.hours * HOUR);
  return { vectors: createSqlVectorStore(db, now), locks: createSqlLockStore(db), clock };
}
