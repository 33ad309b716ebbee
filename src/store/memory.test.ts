import { test } from "vitest";
import { memoryStoreCases } from "../../test/cases/memory-cases.ts";
import { openSqlite } from "./drivers/sqlite.ts";

test.each(memoryStoreCases)("$name", async ({ run }) => {
  const db = await openSqlite(":memory:");
  await run(db).finally(() => db.close());
});
