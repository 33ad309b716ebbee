import { expect, test } from "vitest";
import { methodRunStoreCases } from "../../test/cases/method-run-cases.ts";
import { openSqlite } from "./drivers/sqlite.ts";
import { openStore } from "./open-store.ts";
import { recordRestore } from "./store-copy.ts";

test.each(methodRunStoreCases)("$name", async ({ run }) => {
  const db = await openSqlite(":memory:");
  await run(db).finally(() => db.close());
});

test("a restored store has no open runs: their later steps may have run", async () => {
  const now = new Date();
  const store = await openStore(await openSqlite(":memory:"), () => now);
  const holder = { id: "me", pid: 1, host: "here", leaseUntil: now };
  const progress = { step: 1, requests: 0, stepRequests: 0, results: [], exports: {}, handles: [], messages: [] };
  const facts = { id: "r", key: "k", action: "skill__x", digest: "d", callId: "c", steps: 1, args: {}, progress };
  await store.methodRuns.start({ ...facts, caller: { actor: "a", session: "s" }, holder, at: now });

  await recordRestore(store, now, "copy.db");

  expect(await store.methodRuns.get("r")).toMatchObject({ state: "cancelled" });
  await store.close();
});
