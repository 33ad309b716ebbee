import { expect, test } from "vitest";
import { sessionStoreCases } from "../../test/cases/session-cases.ts";
import { openSqlite } from "./drivers/sqlite.ts";
import { openStore } from "./open-store.ts";
import { recordRestore } from "./store-copy.ts";

test.each(sessionStoreCases)("$name", async ({ run }) => {
  const db = await openSqlite(":memory:");
  await run(db).finally(() => db.close());
});

test("a restored store has no open turns: their later calls may have run", async () => {
  const now = new Date();
  const store = await openStore(await openSqlite(":memory:"), () => now);
  const holder = { id: "me", pid: 1, host: "here", leaseUntil: now };
  const caller = { actor: "a", session: "s" };
  await store.turns.add({ id: "t", tokenHash: "h", caller, memo: "{}", holder, at: now });
  const { id } = await store.sessions.open({}, { id: "row", title: "", ...caller }, now);
  await store.sessions.claim(id, "t", undefined, undefined);

  await recordRestore(store, now, "copy.db");

  expect(await store.turns.get("t")).toMatchObject({ state: "cancelled" });
  expect(await store.sessions.find({}, "s")).toMatchObject([{ openTurn: "t" }]);
  await store.close();
});
