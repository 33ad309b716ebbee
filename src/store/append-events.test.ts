import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { NewEvent } from "../core/events.ts";
import { verifyChains } from "../ledger/verify-chains.ts";
import { openSqlite } from "./drivers/sqlite.ts";
import { createSqlEventStore } from "./events.ts";
import { migrate } from "./migrations.ts";
import { type Sql, type SqlQuery, sql } from "./sql.ts";

const event = (session: string, callId: string): NewEvent => ({
  type: "call.received",
  at: new Date("2026-01-02T03:04:05.678Z"),
  session,
  data: { callId, asked: "tool__add", via: "library", args: {} },
});

test("continues a chain that another connection has extended", async () => {
  const { path, store } = await openFile();
  const other = await openFile(path);

  await store.append([event("s", "1")]);
  await other.store.append([event("s", "2"), event("s", "3")]);
  await store.append([event("s", "4"), event("t", "5")]);
  await other.store.append([event("t", "6"), event("s", "7")]);

  const lines = await store.read({ after: 0 });
  expect(lines.map(({ session, seq, callId }) => `${session}${seq}:${callId}`)).toEqual([
    ...["s1:1", "s2:2", "s3:3", "s4:4", "t1:5", "t2:6", "s5:7"],
  ]);
  expect(await verifyChains(store)).toEqual({ sessions: 2, events: 7, broken: [] });
});

test("starts a chain again after the last append was rolled back", async () => {
  const { store, db } = await openFile();
  await db.all(
    sql`create trigger stop before insert on events when new.call_id = '2' begin select raise(abort, 'full'); end`,
  );

  await store.append([event("s", "1")]);
  await expect(store.append([event("s", "2")])).rejects.toThrow("full");
  await store.append([event("s", "3")]);

  expect(await verifyChains(store)).toEqual({ sessions: 1, events: 2, broken: [] });
});

test("writes the events of many calls of one session with few statements", async () => {
  const { store, asked } = await openFile();
  await store.append([event("s", "first")]);
  asked.length = 0;

  await store.append(Array.from({ length: 96 }, (_, at) => event("s", String(at))));

  const verbs = asked.map(({ parts }) => parts[0]?.trim().split(" ", 1)[0]);
  expect(verbs).toEqual(["update", "insert", "insert", "insert"]);
  expect(await verifyChains(store)).toEqual({ sessions: 1, events: 97, broken: [] });
});

async function openFile(path = newPath()) {
  const db = await openSqlite(path);
  onTestFinished(() => db.close());
  await migrate(db);
  const asked: SqlQuery[] = [];
  const watch = (sql: Sql): Sql => ({
    all(query) {
      asked.push(query);
      return sql.all(query);
    },
    transaction: (work) => sql.transaction((tx) => work(watch(tx))),
  });
  return { path, db, asked, store: createSqlEventStore(watch(db)) };
}

function newPath(): string {
  const folder = mkdtempSync(join(tmpdir(), "qm-append-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return join(folder, "store.db");
}
