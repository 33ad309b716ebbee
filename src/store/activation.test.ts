import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openSqliteStore } from "./open-store.ts";

const now = () => new Date("2026-01-02T03:04:05Z");

test("several connections add a name once, and count all uses", async () => {
  const folder = mkdtempSync(join(tmpdir(), "qm-shelves-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const stores = await Promise.all(Array.from({ length: 4 }, () => openSqliteStore(join(folder, "store.db"), { now })));
  onTestFinished(async () => void (await Promise.all(stores.map((store) => store.close()))));

  const answers = await Promise.all(
    Array.from({ length: 40 }, (_, at) => stores[at % 4]?.activation.put("s", [`n${at % 8}`, "same"])),
  );
  await Promise.all(stores.map(({ actionUse }) => actionUse.add("o", [{ action: "a", weight: 2, at: now() }])));

  const names = await stores[0]?.activation.read("s");
  expect(answers.flat().sort()).toEqual([...(names ?? [])].sort());
  expect(names).toHaveLength(9);
  expect(await stores[1]?.actionUse.read("o")).toEqual([{ action: "a", weight: 8, at: now() }]);
});
