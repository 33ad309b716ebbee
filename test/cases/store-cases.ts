import assert from "node:assert/strict";
import { QmError } from "../../src/core/errors.ts";
import type { NewEvent } from "../../src/core/events.ts";
import { CHAIN_START, hashLine } from "../../src/ledger/hash-chain.ts";
import { createSqlEventStore } from "../../src/store/events.ts";
import { migrate } from "../../src/store/migrations.ts";
import { joinQueries, type SqlDriver, type SqlRow, type SqlValue, sql } from "../../src/store/sql.ts";

/** One test of a store on its own empty database. Any test runner can loop over these. */
export interface StoreCase {
  readonly name: string;
  run(db: SqlDriver): Promise<void>;
}

/** Defines cases by name. `open` prepares the database and returns the first argument of each case. */
export function defineCases<T>(
  open: (db: SqlDriver) => Promise<T>,
  cases: Readonly<Record<string, (opened: T, db: SqlDriver) => Promise<void>>>,
): readonly StoreCase[] {
  return Object.entries(cases).map(([name, check]) => ({ name, run: async (db) => check(await open(db), db) }));
}

export const sqlCases = defineCases(async (db) => db, {
  "binds values that look like SQL": async (db) => {
    await db.all(sql`create table t (v text)`);
    const texts = ["'); drop table t; --", "?", "$1", "", "naïve ☂ 🦑"];

    for (const text of texts) await db.all(sql`insert into t values (${text})`);

    for (const text of texts)
      assert.deepEqual(plain(await db.all(sql`select v from t where v = ${text}`)), [{ v: text }]);
  },
  "splices queries into queries, values in order": async (db) => {
    await db.all(sql`create table t (a bigint, b text)`);
    const rows = ["one", "two", "three"].map((text, at) => sql`(${at + 1}, ${text})`);

    await db.all(sql`insert into t (a, b) values ${joinQueries(rows, ", ")}`);

    const where = joinQueries([sql`a > ${1}`, sql`b <> ${"three"}`], " and ");
    assert.deepEqual(plain(await db.all(sql`select a, b from t where ${where} limit ${5}`)), [{ a: 2, b: "two" }]);
  },
  "returns numbers, text and null unchanged, and booleans as 0 and 1": async (db) => {
    await db.all(sql`create table t (n bigint, x double precision, t text, yes bigint, no bigint, none text)`);

    await db.all(sql`insert into t values (${2 ** 53 - 1}, ${0.1}, ${"1"}, ${true}, ${false}, ${null})`);

    const expected = { n: 2 ** 53 - 1, x: 0.1, t: "1", yes: 1, no: 0, none: null };
    assert.deepEqual(plain(await db.all(sql`select * from t`)), [expected]);
  },
  "refuses values that it could not return unchanged": async (db) => {
    await db.all(sql`create table t (v text)`);

    for (const value of [undefined, Number.NaN, Number.POSITIVE_INFINITY, "a\0b"]) {
      await assert.rejects(db.all(sql`insert into t values (${value as SqlValue})`), { code: "internal" });
    }

    assert.deepEqual(await db.all(sql`select * from t`), []);
  },
  "commits a transaction and returns its result": async (db) => {
    await db.all(sql`create table t (v text)`);

    const answer = await db.transaction(async (tx) => {
      await tx.all(sql`insert into t values (${"kept"})`);
      return (await tx.all(sql`select v from t`)).length;
    });

    assert.equal(answer, 1);
    assert.deepEqual(plain(await db.all(sql`select v from t`)), [{ v: "kept" }]);
  },
  "rolls back a transaction that throws, and rethrows": async (db) => {
    await db.all(sql`create table t (v text)`);
    const reason = new Error("changed my mind");

    const failing = db.transaction(async (tx) => {
      await tx.all(sql`insert into t values (${"gone"})`);
      throw reason;
    });

    await assert.rejects(failing, (thrown) => thrown === reason);
    assert.deepEqual(await db.all(sql`select v from t`), []);
  },
  "keeps a statement outside a transaction out of it": async (db) => {
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
  "serializes transactions that read and write": async (db) => {
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
  "lets a transaction inside a transaction fail alone": async (db) => {
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
  "finishes statements that a transaction did not await, and refuses later ones": async (db) => {
    await db.all(sql`create table t (v text)`);

    const leaked = await db.transaction(async (tx) => {
      void tx.all(sql`insert into t values (${"not waited for"})`);
      return tx;
    });

    await assert.rejects(leaked.all(sql`insert into t values (${"late"})`), /the transaction has ended/);
    assert.deepEqual(plain(await db.all(sql`select v from t`)), [{ v: "not waited for" }]);
  },
  "reports a constraint violation as a conflict": async (db) => {
    await db.all(sql`create table t (v text primary key)`);
    await db.all(sql`insert into t values (${"only once"})`);

    const again = db.all(sql`insert into t values (${"only once"})`);

    await assert.rejects(
      again,
      (thrown) => thrown instanceof QmError && thrown.code === "conflict" && thrown.cause !== undefined,
    );
    assert.equal((await db.all(sql`select v from t`)).length, 1);
  },
  "reports an invalid statement as store_failed": async (db) => {
    await assert.rejects(db.all(sql`select from nowhere at all`), { code: "store_failed" });
    await assert.rejects(
      db.transaction((tx) => tx.all(sql`select v from nowhere`)),
      { code: "store_failed" },
    );

    assert.deepEqual(plain(await db.all(sql`select 1 as one`)), [{ one: 1 }]);
  },
  "finishes pending statements on close, and refuses later ones": async (db) => {
    const before = db.all(sql`select 1 as one`);
    const closing = db.close();

    assert.deepEqual(plain(await before), [{ one: 1 }]);
    await closing;
    await assert.rejects(db.all(sql`select 1`), { code: "store_failed", message: "the store is closed" });
    await db.close();
  },
});

export const eventStoreCases = defineCases(openEvents, {
  "chains each session's lines, from 1 and without gaps": async (events) => {
    await events.append([createReceived("a", 1), createReceived("b", 2), createReceived("a", 3)]);
    await events.append([createReceived("a", 4)]);

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
  "reads the last session with a prefix": async (events) => {
    await events.append([
      createReceived("m:1@2", 1),
      createReceived("m:1@1", 2),
      createReceived("m:1@2", 3),
      createReceived("m:2@9", 4),
    ]);

    const read = async (lastSessionOf: string, limit = 10) =>
      (await events.read({ lastSessionOf, limit })).map(({ session, seq }) => [session, seq]);
    assert.deepEqual(await read("m:1@", 1), [["m:1@2", 2]]);
    assert.deepEqual(await read("m:1@"), [
      ["m:1@2", 1],
      ["m:1@2", 2],
    ]);
    assert.deepEqual(await read("m:3@"), []);
  },
  "returns an event as it was written": async (events) => {
    await events.append([
      { ...createReceived("a", 1), actor: "main", tenant: "acme", turn: "t1", user: "u1", person: "p1" },
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
  "writes all events of a batch or none": async (events) => {
    await events.append([createReceived("a", 1)]);
    const unfit = { ...createReceived("b", 3), type: undefined as never } as NewEvent;

    await assert.rejects(events.append([createReceived("a", 2), createReceived("b", 2), unfit]));
    await events.append([]);
    await events.append([createReceived("a", 4)]);

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
  "keeps one chain intact with concurrent writers": async (events) => {
    await Promise.all(
      Array.from({ length: 25 }, (_, at) => events.append([createReceived("a", at), createReceived("b", at)])),
    );

    for (const session of ["a", "b"]) {
      const lines = await events.read({ session });
      assert.deepEqual(
        lines.map(({ seq }) => seq),
        Array.from({ length: 25 }, (_, at) => at + 1),
      );
      for (const [at, { prev }] of lines.entries()) assert.equal(prev, lines[at - 1]?.hash ?? CHAIN_START);
    }
  },
  "reads the newest lines in order of writing, or those after one": async (events) => {
    await events.append(Array.from({ length: 10 }, (_, at) => createReceived("a", at + 1)));
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
  "finds lines by session, actor, tenant, type, call and action, and by all of them together": async (events) => {
    const failed = { type: "provider.failed", at, session: "s1", data: { category: "x", reason: "y" } } as const;
    await events.append([
      { ...createReceived("s1", 1), actor: "main", tenant: "acme" },
      { ...createReceived("s2", 2), actor: "other", tenant: "acme" },
      { ...failed, actor: "main" },
    ]);
    const findIds = async (query: Parameters<typeof events.read>[0]) => (await events.read(query)).map(({ id }) => id);

    assert.deepEqual(await findIds({ session: "s1" }), [1, 3]);
    assert.deepEqual(await findIds({ actor: "main" }), [1, 3]);
    assert.deepEqual(await findIds({ tenant: "acme" }), [1, 2]);
    assert.deepEqual(await findIds({ type: "provider.failed" }), [3]);
    assert.deepEqual(await findIds({ type: "name." }), [1, 2]);
    assert.deepEqual(await findIds({ type: "name" }), []);
    assert.deepEqual(await findIds({ callId: "call-2" }), [2]);
    assert.deepEqual(await findIds({ action: "file__read" }), [1, 2]);
    assert.deepEqual(
      await findIds({ session: "s1", actor: "main", type: "name.", action: "file__read", after: 0 }),
      [1],
    );
  },
  "gives an unfinished call of a process that is gone to one other process": async (_events, db) => {
    const [a, b, c] = ["a", "b", "c"].map((id, at) => createSqlEventStore(db, { id, pid: at + 1, host: "here" }));
    await a?.append([createDecided("1", "write"), createDecided("2", "read"), createDecided("3", "write")]);
    await a?.append([createEnded("3")]);

    const taken = await Promise.all([b, c].map((each) => each?.takeUnfinished(({ id }) => id === "a")));
    const again = await Promise.all([b, c].map((each) => each?.takeUnfinished(({ id }) => id === "a")));
    const mine = taken[0]?.length === 1 ? b : c;
    await mine?.append([createEnded("1")]);

    assert.deepEqual([...taken.flat(), ...again.flat()], ["1"]);
    assert.deepEqual(await a?.takeUnfinished(() => true), []);
  },
  "keeps a chain intact with unusual text": async (events) => {
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
});

const at = new Date("2026-01-02T03:04:05.678Z");

function createReceived(session: string, call: number): NewEvent {
  const data = { callId: `call-${call}`, asked: "file.read", action: "file__read", how: "respelled" } as const;
  return { type: "name.repaired", at, session, data };
}

function createDecided(callId: string, effect: "read" | "write"): NewEvent {
  const data = {
    callId,
    action: "tool__pay",
    definition: "",
    effect,
    scope: "",
    routing: "",
    policyVersion: "",
  } as const;
  return { type: "call.decided", at, session: "s", data: { ...data, decision: "allow" } };
}

const createEnded = (callId: string): NewEvent => ({
  type: "call.ended",
  at,
  session: "s",
  data: { callId, status: "done", durationMs: 1, bytes: 0, result: null },
});

async function openEvents(db: SqlDriver) {
  await migrate(db);
  return createSqlEventStore(db);
}

/** Rows of some engines have no prototype, which strict equality compares. */
function plain(rows: readonly SqlRow[]): readonly SqlRow[] {
  return rows.map((row) => ({ ...row }));
}
