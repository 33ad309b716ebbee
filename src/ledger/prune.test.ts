import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { question, steps } from "../../test/cases/approval-fixtures.ts";
import type { NewEvent } from "../core/events.ts";
import { openSqlite } from "../store/drivers/sqlite.ts";
import { openStore } from "../store/open-store.ts";
import { sql } from "../store/sql.ts";
import { readArchives } from "./archive.ts";
import type { StoredEvent } from "./event-store.ts";
import { hashLine } from "./hash-chain.ts";
import { pruneLedger } from "./prune.ts";
import { verifyChains } from "./verify-chains.ts";

const DAY = 86_400_000;
const START = Date.parse("2026-01-01T00:00:00Z");
const day = (count: number) => new Date(START + count * DAY);

test("removes old events and leaves a ledger that can be verified", async () => {
  const { store, verify, prune } = await openTestStore();
  await store.events.append([
    ...createEvents("s", 1, 10),
    ...createEvents("gone", 1, 3),
    ...createEvents("system", 1, 4),
  ]);

  expect(await prune(day(6))).toEqual({ events: 5 + 3 + 4, sessions: 3 });

  expect((await store.events.read({ session: "s" })).map(({ seq }) => seq)).toEqual([6, 7, 8, 9, 10]);
  expect((await store.events.heads()).map(({ session }) => session)).toEqual(["s", "system"]);
  expect(await verify()).toMatchObject({ broken: [] });
  expect(await verify({ session: "s" })).toEqual({ sessions: 1, events: 5, broken: [] });
  expect((await verify({ session: "system" })).broken).toEqual([]);
  expect(await prune(day(6))).toEqual({ events: 0, sessions: 0 });
});

test("verifies after many removals, also when the records of the first ones are removed", async () => {
  const { store, verify, prune, setNow } = await openTestStore();
  await store.events.append(createEvents("s", 1, 40));
  // An open approval holds the rest of this session back.
  await store.events.append([...createEvents("held", 1, 1), ...createEvents("held", 2, 9, "call of a1")]);
  await store.approvals.request(question({ id: "a1", caller: { actor: "a", session: "held" } }), 10);

  for (let at = 2; at < 40; at += 6) {
    setNow(day(at));
    await prune(day(at));
    expect((await verify()).broken).toEqual([]);
  }

  expect((await store.events.read({ session: "held" }))[0]?.seq).toBe(2);
  expect((await store.events.read({ session: "s" }))[0]?.seq).toBe(38);
});

test("keeps what an open approval or an unfinished turn needs, until it is over", async () => {
  const { store, prune, db } = await openTestStore();
  await store.events.append([
    ...createEvents("asking", 1, 3),
    ...createEvents("asking", 4, 5, "call of a1"),
    ...createEvents("turning", 1, 5),
  ]);
  const { approval } = await store.approvals.request(question({ id: "a1" }), 10);
  await db.all(sql`
    insert into turns (id, token_hash, state, caller, session, version, started_at, changed_at, calls, memo)
    values ('t1', 'hash', 'suspended', '{}', 'turning', 1, ${day(2).toISOString()}, ${day(2).toISOString()}, '[]', '')`);

  await prune(day(30));
  const kept = async (session: string) => (await store.events.read({ session })).map(({ seq }) => seq);
  expect(await kept("asking")).toEqual([4, 5]);
  expect(await kept("turning")).toEqual([2, 3, 4, 5]);

  await steps.denied(store.approvals, approval.id);
  await db.all(sql`update turns set state = 'complete'`);
  await prune(day(30));
  expect([await kept("asking"), await kept("turning")]).toEqual([[], []]);
});

test.each([
  ["a changed event", sql`update events set actor = 'other' where session = 's' and seq = 7`, "changed"],
  ["a further removed event", sql`delete from events where session = 's' and seq = 6`, "missing"],
  ["a removed tail", sql`delete from events where session = 's' and seq = 10`, "cut tail"],
  [
    "a changed record",
    sql`update events set data = replace(data, '"seq":5', '"seq":6') where type = 'ledger.pruned'`,
    "changed",
  ],
  ["a removed record", sql`delete from events where type = 'ledger.pruned'`, "missing"],
  ["all events of a chain", sql`delete from events where session = 's'`, "missing"],
])("finds %s after a removal", async (_what, tampering, problem) => {
  const { store, verify, prune, db } = await openTestStore();
  await store.events.append([...createEvents("s", 1, 10), ...createEvents("system", 1, 3)]);
  await prune(day(6));

  await db.all(tampering);

  expect((await verify()).broken).toContainEqual(expect.objectContaining({ problem }));
  const about = await verify({ session: "s" });
  expect(about.broken.map((each) => each.problem)).toContain(problem);
});

test("finds a further removal in a chain that was started again", async () => {
  const { store, verify, prune, db } = await openTestStore();
  await store.events.append(createEvents("s", 1, 5));
  const saved = await store.events.heads();
  await prune(day(30));
  await store.events.append(createEvents("s", 31, 33));
  expect((await verify({ against: saved })).broken).toEqual([]);

  await db.all(sql`delete from events where session = 's' and seq = 1`);
  expect((await verify()).broken).toMatchObject([{ session: "s", problem: "missing" }]);
  await db.all(sql`delete from events where session = 's'`);
  expect((await verify()).broken).toMatchObject([{ session: "s", problem: "missing" }]);
});

test("checks saved heads of removed lines against the record", async () => {
  const { store, verify, prune } = await openTestStore();
  await store.events.append(createEvents("s", 1, 5));
  const [head] = await store.events.heads();
  await store.events.append(createEvents("s", 6, 9));
  await prune(day(6));

  expect((await verify({ against: [head as never] })).broken).toEqual([]);
  expect((await verify({ against: [{ session: "s", seq: 5, hash: "0".repeat(64) }] })).broken).toMatchObject([
    { session: "s", seq: 5, problem: "changed" },
  ]);
});

test("refuses to remove events that were changed", async () => {
  const { store, prune, db } = await openTestStore();
  await store.events.append(createEvents("s", 1, 5));
  await db.all(sql`update events set actor = 'other' where seq = 3`);

  await expect(prune(day(30))).rejects.toMatchObject({ code: "ledger_failed" });
  expect(await store.events.read({ session: "s" })).toHaveLength(5);
});

test("does not hide that events were deleted by removing those after them", async () => {
  const { store, verify, prune, db } = await openTestStore();
  await store.events.append(createEvents("s", 1, 20));
  await db.all(sql`delete from events where session = 's' and seq <= 3`);

  await expect(prune(day(6))).rejects.toMatchObject({ code: "ledger_failed" });
  expect((await verify()).broken).toMatchObject([{ session: "s", problem: "missing" }]);
});

test("does not hide that events were deleted between two removals", async () => {
  const { store, verify, prune, db } = await openTestStore();
  await store.events.append(createEvents("s", 1, 20));
  await prune(day(6));
  await db.all(sql`delete from events where session = 's' and seq <= 8`);

  await expect(prune(day(12))).rejects.toMatchObject({ code: "ledger_failed" });
  expect((await verify()).broken).toMatchObject([{ session: "s", problem: "missing" }]);
});

test("writes removed events to archives that are verified with the ledger", async () => {
  const { store, verify, prune, folder } = await openTestStore();
  const [one, two] = [join(folder, "a/one.jsonl"), join(folder, "a/two.jsonl")];
  await store.events.append([...createEvents("s", 1, 10), ...createEvents("gone", 1, 4)]);
  await prune(day(4), one);
  await prune(day(8), two);
  const check = (...paths: readonly string[]) => verify({ archived: readArchives(paths) });

  expect(statSync(one).mode & 0o777).toBe(0o600);
  expect(await check(one, two)).toMatchObject({ archived: 7 + 4, broken: [] });
  expect((await check(two)).broken).toEqual([]);
  expect((await check(one)).broken).toEqual([]);

  const lines = readFileSync(two, "utf8").trimEnd().split("\n");
  const spoil = (change: (lines: string[]) => string[]) => writeFileSync(two, `${change([...lines]).join("\n")}\n`);
  spoil((all) => all.map((line) => line.replace('"actor":"a"', '"actor":"b"')));
  expect((await check(one, two)).broken).not.toEqual([]);
  spoil((all) => all.filter((line) => !line.includes('"session":"s","seq":4')));
  expect((await check(one, two)).broken).toMatchObject([{ session: "s", problem: "missing" }]);
  spoil((all) => all.filter((line) => !line.includes('"seq":5')));
  expect((await check(one, two)).broken).toMatchObject([{ session: "s", problem: "missing" }]);
  spoil((all) => all.filter((line) => !line.includes('"seq":7')));
  expect((await check(one, two)).broken).toMatchObject([{ session: "s", problem: "missing" }]);
});

test("does not believe a record in a forged archive", async () => {
  const { store, verify, db, folder } = await openTestStore();
  await store.events.append(createEvents("s", 1, 5));
  await store.events.append(createEvents("system", 1, 2));
  const [last] = await store.events.read({ session: "s" }).then((all) => all.slice(2, 3));
  await db.all(sql`delete from events where session = 's' and seq <= 3`);
  const data = { before: "x", events: 3, chains: [{ session: "s", seq: 3, hash: last?.hash ?? "" }] };
  const [system] = await store.events.read({ session: "system" });
  const line = { ...system, type: "ledger.pruned", data, callId: null, action: null } as StoredEvent;
  const archive = join(folder, "forged.jsonl");
  writeFileSync(archive, `${JSON.stringify({ ...line, hash: hashLine(line) })}\n`);

  for (const options of [{}, { session: "s" }])
    expect((await verify({ ...options, archived: readArchives([archive]) })).broken).not.toEqual([]);
});

test("accepts an archive with lines that a killed process has written and not removed", async () => {
  const { store, verify, prune, folder } = await openTestStore();
  const archive = join(folder, "old.jsonl");
  await store.events.append(createEvents("s", 1, 10));
  const lines = (await store.events.read({ session: "s" })).map((event) => JSON.stringify(event));
  writeFileSync(archive, `${lines.slice(0, 3).join("\n")}\n${lines[3]?.slice(0, 40)}`);

  expect((await verify({ archived: readArchives([archive]) })).broken).toEqual([]);
  await prune(day(6), archive);
  expect(await verify({ archived: readArchives([archive]) })).toMatchObject({ archived: 8, broken: [] });
  appendFileSync(archive, "something else\n");
  await expect(verify({ archived: readArchives([archive]) })).rejects.toMatchObject({ code: "invalid_arguments" });
});

async function openTestStore() {
  const folder = mkdtempSync(join(tmpdir(), "qm-prune-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const db = await openSqlite(":memory:");
  let now = day(1000);
  const store = await openStore(db, () => now);
  onTestFinished(() => store.close());
  return {
    db,
    folder,
    store,
    setNow(at: Date) {
      now = at;
    },
    verify: (options?: Parameters<typeof verifyChains>[1]) => verifyChains(store.events, options),
    prune: (before: Date, archive?: string) =>
      pruneLedger(store.events, { before, ...(archive === undefined ? {} : { archive }) }, () => now),
  };
}

/** One event a day, from day to day. */
function createEvents(session: string, from: number, to: number, callId = "c"): readonly NewEvent[] {
  return Array.from({ length: to - from + 1 }, (_, index) => ({
    type: "call.suspended",
    at: day(from + index),
    session,
    actor: "a",
    data: { callId, approvalId: "p", action: "file__read" },
  }));
}
