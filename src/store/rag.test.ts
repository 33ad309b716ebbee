import { test } from "vitest";
import { ragStoreCases } from "../../test/cases/rag-cases.ts";
import { openSqlite } from "./drivers/sqlite.ts";

test.each(ragStoreCases)("$name", async ({ run }) => {
  const db = await openSqlite(":memory:");
  await run(db).finally(() => db.close());
});
