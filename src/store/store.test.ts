import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, onTestFinished, test } from "vitest";
import { actionUseStoreCases, shelfStoreCases } from "../testing/activation-cases.ts";
import { manifestStoreCases, processStoreCases } from "../testing/manifest-cases.ts";
import { registryStoreCases } from "../testing/registry-cases.ts";
import { eventStoreCases, sqlCases } from "../testing/store-cases.ts";
import { lockStoreCases, vectorStoreCases } from "../testing/vector-cases.ts";
import { openSqlite } from "./drivers/sqlite.ts";
import type { SqlDriver } from "./sql.ts";

const drivers: Record<string, () => Promise<SqlDriver>> = {
  "SQLite in a file": () => {
    const folder = mkdtempSync(join(tmpdir(), "qm-store-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    return openSqlite(join(folder, "store.db"));
  },
  "SQLite in memory": () => openSqlite(":memory:"),
};

for (const [driver, open] of Object.entries(drivers)) {
  describe(driver, () => {
    for (const { name, run } of [
      ...sqlCases,
      ...eventStoreCases,
      ...shelfStoreCases,
      ...actionUseStoreCases,
      ...vectorStoreCases,
      ...lockStoreCases,
      ...registryStoreCases,
      ...manifestStoreCases,
      ...processStoreCases,
    ]) {
      test(name, async () => {
        const db = await open();
        await run(db).finally(() => db.close());
      });
    }
  });
}
