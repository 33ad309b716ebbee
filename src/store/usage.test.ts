import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openSqliteStore } from "./open-store.ts";

test("counts calls, and adds their time and bytes", async () => {
  const usage = await opened();

  await usage.charge([{ key: "a" }, { key: "b", maxCalls: 5 }]);
  await usage.charge([{ key: "a" }]);
  await usage.settle(["a", "b"], 12.4, 100);
  await usage.settle(["a", "never charged"], 3, 1);

  expect(await usage.read(["a", "b", "never charged", "unknown"])).toEqual(
    new Map([
      ["a", { calls: 2, ms: 15, bytes: 101 }],
      ["b", { calls: 1, ms: 12, bytes: 100 }],
      ["never charged", { calls: 0, ms: 3, bytes: 1 }],
    ]),
  );
  expect(await usage.read([])).toEqual(new Map());
});

test("adds the tokens and costs of language models", async () => {
  const usage = await opened();

  await usage.addModelUsage(["a", "b"], { tokens: 100, cost: 0.25 });
  await usage.addModelUsage(["a"], { tokens: 50, cost: 0.5 });
  await usage.charge([{ key: "a" }]);
  await usage.addModelUsage(["c"], { tokens: 7, cost: 0 });
  await usage.addModelUsage([], { tokens: 7, cost: 0 });

  expect(await usage.read(["a", "b", "c"])).toEqual(
    new Map([
      ["a", { calls: 1, ms: 0, bytes: 0, tokens: 150, cost: 0.75 }],
      ["b", { calls: 0, ms: 0, bytes: 0, tokens: 100, cost: 0.25 }],
      ["c", { calls: 0, ms: 0, bytes: 0, tokens: 7 }],
    ]),
  );
});

test("charges all keys or none, and names the exhausted one", async () => {
  const usage = await opened();
  await usage.charge([{ key: "b", maxCalls: 1 }]);

  const answer = await usage.charge([{ key: "a" }, { key: "b", maxCalls: 1 }, { key: "c" }]);

  expect(answer).toEqual({ ok: false, key: "b" });
  expect(await usage.read(["a", "b", "c"])).toEqual(new Map([["b", { calls: 1, ms: 0, bytes: 0 }]]));
});

test("allows no call with a limit of zero", async () => {
  const usage = await opened();

  expect(await usage.charge([{ key: "a", maxCalls: 0 }])).toEqual({ ok: false, key: "a" });
});

test("allows exactly the limit over all connections", async () => {
  const folder = mkdtempSync(join(tmpdir(), "qm-usage-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const connections = await Promise.all(Array.from({ length: 4 }, () => opened(join(folder, "store.db"))));

  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, at) => connections[at % 4]?.charge([{ key: "mine" }, { key: "all", maxCalls: 25 }])),
  );

  expect(answers.filter((answer) => answer?.ok)).toHaveLength(25);
  const counted = { calls: 25, ms: 0, bytes: 0 };
  expect(await connections[0]?.read(["all", "mine"])).toEqual(
    new Map([
      ["all", counted],
      ["mine", counted],
    ]),
  );
});

test("removes the accounts of named turns that are long over, and no others", async () => {
  const store = await openSqliteStore(":memory:", { now: () => new Date("2026-01-01T00:00:00Z") });
  onTestFinished(() => store.close());
  const holder = { id: "h", pid: 1, host: "here", leaseUntil: new Date("2026-01-02T00:00:00Z") };
  const caller = { actor: "a", session: "s" };
  await store.turns.add({ id: "open", tokenHash: "t", caller, memo: "", holder, at: new Date("2026-01-01T00:00:00Z") });
  const over = ['turn:["s","over"]', 'turn:["a","s","over"]'];
  const turns = ['turn:["s","open"]', 'turn:["a","s","open"]', 'turn:["s",""]', 'turn:["a","s",""]'];
  const kept = [...turns, 'session:"s"', 'tenant:"t"', 'session:["a","s"]'];
  await store.usage.charge([...over, ...kept].map((key) => ({ key })));

  await store.usage.prune(new Date("2025-12-31T00:00:00Z"));
  expect((await store.usage.read([...over, ...kept])).size).toBe(9);
  await store.usage.prune(new Date("2026-02-01T00:00:00Z"));
  expect([...(await store.usage.read([...over, ...kept])).keys()].sort()).toEqual(kept.sort());
});

async function opened(path = ":memory:") {
  const store = await openSqliteStore(path, { now: () => new Date("2026-01-02T03:04:05Z") });
  onTestFinished(() => store.close());
  return store.usage;
}
