import { test } from "vitest";
import { peerTaskStoreCases } from "../../test/cases/peer-task-cases.ts";
import { openSqlite } from "./drivers/sqlite.ts";

test.each(peerTaskStoreCases)("$name", async ({ run }) => {
  const db = await openSqlite(":memory:");
  await run(db).finally(() => db.close());
});
