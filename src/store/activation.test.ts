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

test("removes the lists to which nothing was added for long", async () => {
  let at = now();
  const store = await openSqliteStore(":memory:", { now: () => at });
  onTestFinished(() => store.close());
  await store.activation.put("old", ["a"]);
  await store.activation.put("grown", ["a"]);
  at = new Date("2026-03-01T00:00:00Z");
  await store.activation.put("grown", ["b"]);

  await store.activation.prune(new Date("2026-02-01T00:00:00Z"));

  expect(await store.activation.read("old")).toEqual([]);
  expect(await store.activation.read("grown")).toEqual(["a", "b"]);
});
