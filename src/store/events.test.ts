import { expect, onTestFinished, test } from "vitest";
import type { EventQuery } from "../ledger/event-store.ts";
import { openSqlite } from "./drivers/sqlite.ts";
import { createSqlEventStore } from "./events.ts";
import { migrate } from "./migrations.ts";
import { type SqlQuery, sql } from "./sql.ts";

const queries: readonly EventQuery[] = [
  {},
  { after: 1 },
  ...[{ session: "s" }, { actor: "a" }, { tenant: "t" }, { type: "call.ended" }, { type: "call." }],
  ...[{ callId: "c" }, { action: "a" }].flatMap((query) => [query, { ...query, after: 1 }]),
  { session: "s", after: 1 },
];

test.each(queries.map((query) => [JSON.stringify(query), query] as const))(
  "reads %s without sorting, and by its index where it has one",
  async (_text, query) => {
    const db = await openSqlite(":memory:");
    onTestFinished(() => db.close());
    await migrate(db);
    const asked: SqlQuery[] = [];
    const watched = createSqlEventStore({
      ...db,
      all(one) {
        asked.push(one);
        return db.all(one);
      },
    });

    await watched.read(query);

    const plan = await db.all(sql`explain query plan ${asked[0] ?? sql``}`);
    const steps = plan.map(({ detail }) => String(detail));
    const straight = ["session", "callId", "after"].some((key) => key in query);
    // Newest first is the order of the table itself; the limit ends the way through it.
    // One session from a place on is for checking its chain, which must see the lines as they stand in the table.
    const sorted = "session" in query && "after" in query ? ["USE TEMP B-TREE FOR ORDER BY"] : [];
    expect(steps).toEqual([
      expect.stringMatching(straight ? /^SEARCH events USING (INDEX|INTEGER PRIMARY KEY)/ : /^SCAN events$/),
      ...sorted,
    ]);
  },
);
