import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { anchorStoreCases } from "../../test/cases/anchor-cases.ts";
import { createSqlAnchorStore } from "./anchors.ts";
import { openSqlite } from "./drivers/sqlite.ts";
import { migrate } from "./migrations.ts";

const now = () => new Date("2026-01-02T03:04:05Z");

function openFile() {
  const folder = mkdtempSync(join(tmpdir(), "qm-anchors-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return () => openSqlite(join(folder, "store.db"));
}

describe.each([
  ["SQLite in a file", () => openFile()()],
  ["SQLite in memory", () => openSqlite(":memory:")],
])("%s", (_driver, open) => {
  test.each(anchorStoreCases)("$name", async ({ run }) => {
    const db = await open();
    await run(db).finally(() => db.close());
  });
});

test("another process reads the anchors of one that has ended", async () => {
  const open = openFile();
  const first = await open();
  await migrate(first);
  const second = await open();
  onTestFinished(() => second.close());

  const kept = await createSqlAnchorStore(first, now).put("o", new Map([["price:00000001", "12.5"]]));
  await first.close();

  expect(kept).toBe(true);
  expect(await createSqlAnchorStore(second, now).put("o", new Map([["price:00000001", "13"]]))).toBe(false);
  expect(await createSqlAnchorStore(second, now).read("o", ["price:00000001"])).toEqual(
    new Map([["price:00000001", "12.5"]]),
  );
});
