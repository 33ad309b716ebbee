import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, onTestFinished, test } from "vitest";
import { actionUseStoreCases, shelfStoreCases } from "../../test/cases/activation-cases.ts";
import { manifestStoreCases, processStoreCases } from "../../test/cases/manifest-cases.ts";
import { registryStoreCases } from "../../test/cases/registry-cases.ts";
import { eventStoreCases, sqlCases } from "../../test/cases/store-cases.ts";
import { lockStoreCases, vectorStoreCases } from "../../test/cases/vector-cases.ts";
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
