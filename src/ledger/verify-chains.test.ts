import { expect, onTestFinished, test } from "vitest";
import type { NewEvent } from "../core/events.ts";
import { openSqlite } from "../store/drivers/sqlite.ts";
import { createSqlEventStore } from "../store/events.ts";
import { migrate } from "../store/migrations.ts";
import { type SqlDriver, type SqlQuery, sql } from "../store/sql.ts";
import { hashLine } from "./hash-chain.ts";
import { type ChainReport, verifyChains } from "./verify-chains.ts";

test("reports intact chains as intact, over several pages", async () => {
  const { events } = await writtenLedger();
  for (let batch = 0; batch < 3; batch++) await events.append(Array.from({ length: 400 }, () => line("long")));

  expect(await verifyChains(events)).toEqual({ sessions: 3, events: 1212, broken: [] });
  expect(await verifyChains(events, { session: "a" })).toEqual({ sessions: 1, events: 6, broken: [] });
  expect(await verifyChains(events, { session: "nobody" })).toEqual({ sessions: 0, events: 0, broken: [] });
});

test.each([
  ["type", "call.ended"],
  ["at", "2020-01-01T00:00:00.000Z"],
  ["actor", null],
  ["tenant", "somebody else"],
  ["turn", ""],
  ["call_id", "other"],
  ["action", "other__action"],
  ["data", '{"action":"x__y","asked":"z","callId":"c","how":"alias"}'],
  ["data", '{ "action":"x__y","asked":"y","callId":"c","how":"alias"}'],
  ["data", "not json"],
  ["prev", "0".repeat(64)],
  ["hash", "0".repeat(64)],
])("detects a changed %s", async (column, value) => {
  const { db, events } = await writtenLedger();

  await db.all({ parts: [`update events set ${column} = `, " where session = 'a' and seq = 3"], values: [value] });

  expect(problems(await verifyChains(events))).toEqual(["a 3 changed"]);
  expect(problems(await verifyChains(events, { session: "a" }))).toEqual(["a 3 changed"]);
  expect(problems(await verifyChains(events, { session: "b" }))).toEqual([]);
});

test("detects a line that was changed together with its hash", async () => {
  const { db, events } = await writtenLedger();
  const [third] = (await events.read({ session: "a" })).slice(2);
  const forged = hashLine({ ...(third ?? expect.fail()), actor: "forged" });

  await db.all(sql`update events set actor = 'forged', hash = ${forged} where session = 'a' and seq = 3`);

  expect(problems(await verifyChains(events))).toEqual(["a 3 changed"]);
});

const removals: readonly [string, readonly SqlQuery[], readonly string[]][] = [
  ["the first line", [sql`delete from events where session = 'a' and seq = 1`], ["a 1 missing"]],
  ["a middle line", [sql`delete from events where session = 'a' and seq = 3`], ["a 3 missing"]],
  ["several lines", [sql`delete from events where session = 'a' and seq in (2, 3, 5)`], ["a 2 missing", "a 5 missing"]],
  ["the last line", [sql`delete from events where session = 'a' and seq = 6`], ["a 6 cut tail"]],
  ["the last lines", [sql`delete from events where session = 'a' and seq > 2`], ["a 3 cut tail"]],
  ["all lines", [sql`delete from events where session = 'a'`], ["a 1 missing"]],
  [
    "a middle line, with the rest moved up",
    [
      sql`delete from events where session = 'a' and seq = 3`,
      sql`update events set seq = seq - 1 where session = 'a' and seq > 3`,
      sql`update chains set seq = 5 where session = 'a'`,
    ],
    ["a 3 changed", "a 4 changed", "a 5 changed"],
  ],
];

test.each(removals)("detects the removal of %s", async (_what, statements, expected) => {
  const { db, events } = await writtenLedger();

  for (const statement of statements) await db.all(statement);

  expect(problems(await verifyChains(events))).toEqual(expected);
});

test("detects swapped lines", async () => {
  const { db, events } = await writtenLedger();
  const ids = (await events.read({ session: "a" })).map(({ id }) => id);

  await db.all(sql`update events set id = -1 where id = ${ids[2] ?? 0}`);
  await db.all(sql`update events set id = ${ids[2] ?? 0} where id = ${ids[3] ?? 0}`);
  await db.all(sql`update events set id = ${ids[3] ?? 0} where id = -1`);

  expect(problems(await verifyChains(events))).toEqual(["a 3 reordered"]);
});

test("detects renumbered lines", async () => {
  const { db, events } = await writtenLedger();

  await db.all(sql`update events set seq = -1 where session = 'a' and seq = 3`);
  await db.all(sql`update events set seq = 3 where session = 'a' and seq = 4`);
  await db.all(sql`update events set seq = 4 where session = 'a' and seq = -1`);
  await db.all(sql`update events set seq = 99 where session = 'b' and seq = 2`);

  expect(problems(await verifyChains(events))).toEqual(["a 4 reordered", "a 3 reordered", "b 99 reordered"]);
});

test("detects a line moved to another session", async () => {
  const { db, events } = await writtenLedger();

  await db.all(sql`update events set session = 'c' where session = 'a' and seq = 3`);

  expect(problems(await verifyChains(events))).toEqual(["a 3 missing", "c 3 changed", "c 1 missing", "c 3 unknown"]);
});

const headChanges: readonly [string, SqlQuery, readonly string[]][] = [
  ["removed", sql`delete from chains where session = 'a'`, ["a 6 unknown"]],
  ["set back", sql`update chains set seq = 4 where session = 'a'`, ["a 4 changed", "a 6 changed"]],
  ["set forward", sql`update chains set seq = 9 where session = 'a'`, ["a 7 cut tail"]],
  ["given another hash", sql`update chains set hash = ${"f".repeat(64)} where session = 'a'`, ["a 6 changed"]],
];

test.each(headChanges)("detects a head that was %s", async (_how, statement, expected) => {
  const { db, events } = await writtenLedger();

  await db.all(statement);

  expect(problems(await verifyChains(events))).toEqual(expected);
});

test("detects a complete rewrite with saved heads", async () => {
  const { db, events } = await writtenLedger();
  const against = await events.heads();
  const shortened = (await events.read({ session: "b" }))[3];
  await db.all(sql`delete from events where session = 'a'`);
  await db.all(sql`delete from chains where session = 'a'`);
  await db.all(sql`delete from events where session = 'b' and seq > 4`);
  await db.all(sql`update chains set seq = 4, hash = ${shortened?.hash ?? ""} where session = 'b'`);

  expect(problems(await verifyChains(events))).toEqual([]);
  expect(problems(await verifyChains(events, { against }))).toEqual(["b 5 cut tail", "a 1 missing"]);

  await events.append(Array.from({ length: 7 }, () => line("a", "rewritten")));

  expect(problems(await verifyChains(events))).toEqual([]);
  expect(problems(await verifyChains(events, { against, session: "a" }))).toEqual(["a 6 changed"]);
});

test("accepts writes during the check", async () => {
  const { events } = await writtenLedger();
  let reads = 0;
  const busy = {
    ...events,
    async read(query: Parameters<typeof events.read>[0]) {
      const page = await events.read({ ...query, limit: 2 });
      if (reads++ < 20) await events.append([line("a"), line(`new ${reads}`)]);
      return page;
    },
  };

  expect((await verifyChains(busy)).broken).toEqual([]);
});

test("bounds the report of a ruined session", async () => {
  const { db, events } = await writtenLedger();
  await events.append(Array.from({ length: 300 }, () => line("a")));

  await db.all(sql`update events set actor = 'x' where session = 'a'`);

  const { broken } = await verifyChains(events);
  expect(broken).toHaveLength(20);
  expect(broken[0]).toEqual({ session: "a", seq: 1, problem: "changed", message: "line 1 does not match its hash" });
});

async function writtenLedger() {
  const db: SqlDriver = await openSqlite(":memory:");
  onTestFinished(() => db.close());
  await migrate(db);
  const events = createSqlEventStore(db);
  for (let at = 0; at < 6; at++) await events.append([line("a"), line("b")]);
  return { db, events };
}

function line(session: string, asked = "y"): NewEvent {
  return {
    type: "name.repaired",
    at: new Date("2026-01-02T03:04:05.678Z"),
    session,
    actor: "main",
    tenant: "acme",
    turn: "t",
    data: { callId: "c", asked, action: "x__y", how: "alias" },
  };
}

function problems({ broken }: ChainReport): readonly string[] {
  return broken.map(({ session, seq, problem }) => `${session} ${seq} ${problem}`);
}
