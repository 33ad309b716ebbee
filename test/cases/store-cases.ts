import assert from "node:assert/strict";
import { QmError } from "../../src/core/errors.ts";
import type { NewEvent } from "../../src/core/events.ts";
import { CHAIN_START, hashLine } from "../../src/ledger/hash-chain.ts";
import { createSqlEventStore } from "../../src/store/events.ts";
import { migrate } from "../../src/store/migrations.ts";
import { joinQueries, type SqlDriver, type SqlRow, type SqlValue, sql } from "../../src/store/sql.ts";

/** One thing every store must do, on an empty database of its own. Any test runner can loop over these. */
export interface StoreCase {
  readonly name: string;
  run(db: SqlDriver): Promise<void>;
}

export const sqlCases: readonly StoreCase[] = [
  {
    name: "takes values as values, whatever they look like",
    async run(db) {
      await db.all(sql`create table t (v text)`);
      const texts = ["'); drop table t; --", "?", "$1", "", "naïve ☂ 🦑"];

      for (const text of texts) await db.all(sql`insert into t values (${text})`);

      for (const text of texts)
        assert.deepEqual(plain(await db.all(sql`select v from t where v = ${text}`)), [{ v: text }]);
    },
  },
  {
    name: "splices queries into queries, values in order",
    async run(db) {
      await db.all(sql`create table t (a bigint, b text)`);
      const rows = ["one", "two", "three"].map((text, at) => sql`(${at + 1}, ${text})`);

      await db.all(sql`insert into t (a, b) values ${joinQueries(rows, ", ")}`);

      const where = joinQueries([sql`a > ${1}`, sql`b <> ${"three"}`], " and ");
      assert.deepEqual(plain(await db.all(sql`select a, b from t where ${where} limit ${5}`)), [{ a: 2, b: "two" }]);
    },
  },
  {
    name: "gives numbers, text and null back as they were, and booleans as 0 and 1",
    async run(db) {
      await db.all(sql`create table t (n bigint, x double precision, t text, yes bigint, no bigint, none text)`);

      await db.all(sql`insert into t values (${2 ** 53 - 1}, ${0.1}, ${"1"}, ${true}, ${false}, ${null})`);

      const expected = { n: 2 ** 53 - 1, x: 0.1, t: "1", yes: 1, no: 0, none: null };
      assert.deepEqual(plain(await db.all(sql`select * from t`)), [expected]);
    },
  },
  {
    name: "refuses values it could not give back",
    async run(db) {
      await db.all(sql`create table t (v text)`);

      for (const value of [undefined, Number.NaN, Number.POSITIVE_INFINITY, "a\0b"]) {
        await assert.rejects(db.all(sql`insert into t values (${value as SqlValue})`), { code: "internal" });
      }

      assert.deepEqual(await db.all(sql`select * from t`), []);
    },
  },
  {
    name: "keeps what a transaction did, and answers what it returned",
    async run(db) {
      await db.all(sql`create table t (v text)`);

      const answer = await db.transaction(async (tx) => {
        await tx.all(sql`insert into t values (${"kept"})`);
        return (await tx.all(sql`select v from t`)).length;
      });

      assert.equal(answer, 1);
      assert.deepEqual(plain(await db.all(sql`select v from t`)), [{ v: "kept" }]);
    },
  },
  {
    name: "undoes a transaction that throws, and throws the same on",
    async run(db) {
      await db.all(sql`create table t (v text)`);
      const reason = new Error("changed my mind");

      const failing = db.transaction(async (tx) => {
        await tx.all(sql`insert into t values (${"gone"})`);
        throw reason;
      });

      await assert.rejects(failing, (thrown) => thrown === reason);
      assert.deepEqual(await db.all(sql`select v from t`), []);
    },
  },
  {
    name: "keeps a statement outside a transaction out of it",
    async run(db) {
      await db.all(sql`create table t (v text)`);
      let outside: Promise<unknown> = Promise.resolve();

      const failing = db.transaction(async (tx) => {
        await tx.all(sql`insert into t values (${"inside"})`);
        outside = db.all(sql`insert into t values (${"outside"})`); // asked for while the transaction is open
        await tx.all(sql`select v from t`);
        throw new Error("rolled back");
      });

      await assert.rejects(failing, /rolled back/);
      await outside;
      assert.deepEqual(plain(await db.all(sql`select v from t`)), [{ v: "outside" }]);
    },
  },
  {
    name: "lets no two transactions read the same before they write",
    async run(db) {
      await db.all(sql`create table t (n bigint)`);
      await db.all(sql`insert into t values (0)`);
      const addOne = () =>
        db.transaction(async (tx) => {
          const [row] = await tx.all(sql`select n from t`);
          await tx.all(sql`update t set n = ${Number(row?.n) + 1}`);
        });

      await Promise.all(Array.from({ length: 20 }, addOne));

      assert.deepEqual(plain(await db.all(sql`select n from t`)), [{ n: 20 }]);
    },
  },
  {
    name: "lets a transaction inside a transaction fail alone",
    async run(db) {
      await db.all(sql`create table t (v text)`);

      await db.transaction(async (tx) => {
        await tx.all(sql`insert into t values (${"outer"})`);
        const failing = tx.transaction(async (inner) => {
          await inner.all(sql`insert into t values (${"inner"})`);
          throw new Error("only this");
        });
        const beside = tx.all(sql`insert into t values (${"beside"})`);
        await assert.rejects(failing, /only this/);
        await beside;
        await tx.transaction((inner) => inner.all(sql`insert into t values (${"second inner"})`));
      });

      const kept = await db.all(sql`select v from t order by v`);
      assert.deepEqual(plain(kept), [{ v: "beside" }, { v: "outer" }, { v: "second inner" }]);
    },
  },
  {
    name: "finishes what a transaction asked for without waiting, and refuses what comes after it",
    async run(db) {
      await db.all(sql`create table t (v text)`);

      const leaked = await db.transaction(async (tx) => {
        void tx.all(sql`insert into t values (${"not waited for"})`);
        return tx;
      });

      await assert.rejects(leaked.all(sql`insert into t values (${"late"})`), /the transaction has ended/);
      assert.deepEqual(plain(await db.all(sql`select v from t`)), [{ v: "not waited for" }]);
    },
  },
  {
    name: "calls a broken constraint a conflict, and goes on",
    async run(db) {
      await db.all(sql`create table t (v text primary key)`);
      await db.all(sql`insert into t values (${"only once"})`);

      const again = db.all(sql`insert into t values (${"only once"})`);

      await assert.rejects(
        again,
        (thrown) => thrown instanceof QmError && thrown.code === "conflict" && thrown.cause !== undefined,
      );
      assert.equal((await db.all(sql`select v from t`)).length, 1);
    },
  },
  {
    name: "calls a wrong statement a failure, and goes on",
    async run(db) {
      await assert.rejects(db.all(sql`select from nowhere at all`), { code: "store_failed" });
      await assert.rejects(
        db.transaction((tx) => tx.all(sql`select v from nowhere`)),
        { code: "store_failed" },
      );

      assert.deepEqual(plain(await db.all(sql`select 1 as one`)), [{ one: 1 }]);
    },
  },
  {
    name: "does what was asked for before it was closed, and nothing after",
    async run(db) {
      const before = db.all(sql`select 1 as one`);
      const closing = db.close();

      assert.deepEqual(plain(await before), [{ one: 1 }]);
      await closing;
      await assert.rejects(db.all(sql`select 1`), { code: "store_failed", message: "the store is closed" });
      await db.close();
    },
  },
];

export const eventStoreCases: readonly StoreCase[] = [
  {
    name: "chains each session's lines, from 1 and without gaps",
    async run(db) {
      const events = await migrated(db);

      await events.append([received("a", 1), received("b", 2), received("a", 3)]);
      await events.append([received("a", 4)]);

      const lines = await events.read({ session: "a" });
      assert.deepEqual(
        lines.map(({ seq }) => seq),
        [1, 2, 3],
      );
      assert.deepEqual(
        lines.map(({ prev }) => prev),
        [CHAIN_START, lines[0]?.hash, lines[1]?.hash],
      );
      for (const line of lines) assert.equal(line.hash, hashLine(line));
      assert.deepEqual(await events.heads(), [
        { session: "a", seq: 3, hash: lines[2]?.hash },
        { session: "b", seq: 1, hash: (await events.read({ session: "b" }))[0]?.hash },
      ]);
    },
  },
  {
    name: "reads the last session that begins with a text",
    async run(db) {
      const events = await migrated(db);

      await events.append([received("m:1@2", 1), received("m:1@1", 2), received("m:1@2", 3), received("m:2@9", 4)]);

      const read = async (lastSessionOf: string, limit = 10) =>
        (await events.read({ lastSessionOf, limit })).map(({ session, seq }) => [session, seq]);
      assert.deepEqual(await read("m:1@", 1), [["m:1@2", 2]]);
      assert.deepEqual(await read("m:1@"), [
        ["m:1@2", 1],
        ["m:1@2", 2],
      ]);
      assert.deepEqual(await read("m:3@"), []);
    },
  },
  {
    name: "gives an event back as it was written",
    async run(db) {
      const events = await migrated(db);

      await events.append([
        { ...received("a", 1), actor: "main", tenant: "acme", turn: "t1", user: "u1", person: "p1" },
      ]);

      const [line] = await events.read({});
      const { id: _id, hash: _hash, ...rest } = line ?? assert.fail("no line");
      assert.deepEqual(rest, {
        session: "a",
        seq: 1,
        type: "name.repaired",
        at: "2026-01-02T03:04:05.678Z",
        actor: "main",
        tenant: "acme",
        turn: "t1",
        user: "u1",
        person: "p1",
        callId: "call-1",
        action: "file__read",
        data: { action: "file__read", asked: "file.read", callId: "call-1", how: "respelled" },
        prev: CHAIN_START,
      });
    },
  },
  {
    name: "writes all events of a batch or none",
    async run(db) {
      const events = await migrated(db);
      await events.append([received("a", 1)]);
      const unfit = { ...received("b", 3), type: undefined as never } as NewEvent;

      await assert.rejects(events.append([received("a", 2), received("b", 2), unfit]));
      await events.append([]);
      await events.append([received("a", 4)]);

      assert.deepEqual(
        (await events.read({})).map(({ seq, callId }) => [seq, callId]),
        [
          [1, "call-1"],
          [2, "call-4"],
        ],
      );
      assert.deepEqual(
        (await events.heads()).map(({ session, seq }) => [session, seq]),
        [["a", 2]],
      );
    },
  },
  {
    name: "keeps one chain whole under many writers at once",
    async run(db) {
      const events = await migrated(db);

      await Promise.all(Array.from({ length: 25 }, (_, at) => events.append([received("a", at), received("b", at)])));

      for (const session of ["a", "b"]) {
        const lines = await events.read({ session });
        assert.deepEqual(
          lines.map(({ seq }) => seq),
          Array.from({ length: 25 }, (_, at) => at + 1),
        );
        for (const [at, { prev }] of lines.entries()) assert.equal(prev, lines[at - 1]?.hash ?? CHAIN_START);
      }
    },
  },
  {
    name: "reads the newest lines in order of writing, or those after one",
    async run(db) {
      const events = await migrated(db);
      await events.append(Array.from({ length: 10 }, (_, at) => received("a", at + 1)));
      const all = await events.read({});
      const third = all[2] ?? assert.fail("no third line");

      const newest = await events.read({ limit: 3 });
      const after = await events.read({ after: third.id, limit: 3 });

      assert.deepEqual(
        newest.map(({ seq }) => seq),
        [8, 9, 10],
      );
      assert.deepEqual(
        after.map(({ seq }) => seq),
        [4, 5, 6],
      );
      assert.deepEqual(await events.read({ after: all.at(-1)?.id ?? 0 }), []);
    },
  },
  {
    name: "finds lines by session, actor, tenant, type, call and action, and by all of them together",
    async run(db) {
      const events = await migrated(db);
      const failed = { type: "provider.failed", at, session: "s1", data: { category: "x", reason: "y" } } as const;
      await events.append([
        { ...received("s1", 1), actor: "main", tenant: "acme" },
        { ...received("s2", 2), actor: "other", tenant: "acme" },
        { ...failed, actor: "main" },
      ]);
      const found = async (query: Parameters<typeof events.read>[0]) => (await events.read(query)).map(({ id }) => id);

      assert.deepEqual(await found({ session: "s1" }), [1, 3]);
      assert.deepEqual(await found({ actor: "main" }), [1, 3]);
      assert.deepEqual(await found({ tenant: "acme" }), [1, 2]);
      assert.deepEqual(await found({ type: "provider.failed" }), [3]);
      assert.deepEqual(await found({ type: "name." }), [1, 2]);
      assert.deepEqual(await found({ type: "name" }), []);
      assert.deepEqual(await found({ callId: "call-2" }), [2]);
      assert.deepEqual(await found({ action: "file__read" }), [1, 2]);
      assert.deepEqual(
        await found({ session: "s1", actor: "main", type: "name.", action: "file__read", after: 0 }),
        [1],
      );
    },
  },
  {
    name: "keeps a chain whole whatever text is in it",
    async run(db) {
      const events = await migrated(db);
      const odd = ["nul\0here", "half \ud800 pair", "__proto__", "🦑", "line\u2028separator", ""];

      for (const text of odd) {
        const data = { callId: text, asked: text, action: text, how: "alias" } as const;
        await events.append([{ type: "name.repaired", at, session: text, actor: text, turn: text, data }]);
      }

      const lines = await events.read({});
      assert.deepEqual(
        lines.map(({ data }) => (data as { asked: string }).asked),
        odd,
      );
      for (const line of lines) assert.equal(line.hash, hashLine(line));
      for (const text of odd) assert.equal((await events.read({ session: text, actor: text })).length, 1);
    },
  },
];

const at = new Date("2026-01-02T03:04:05.678Z");

function received(session: string, call: number): NewEvent {
  const data = { callId: `call-${call}`, asked: "file.read", action: "file__read", how: "respelled" } as const;
  return { type: "name.repaired", at, session, data };
}

async function migrated(db: SqlDriver) {
  await migrate(db);
  return createSqlEventStore(db);
}

/** Rows of some engines have no prototype, and strict equality would see that. */
function plain(rows: readonly SqlRow[]): readonly SqlRow[] {
  return rows.map((row) => ({ ...row }));
}
