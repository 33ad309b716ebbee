import assert from "node:assert/strict";
import { migrate } from "../../src/store/migrations.ts";
import { createSqlRegistryStore } from "../../src/store/server-registry.ts";
import type { SqlDriver } from "../../src/store/sql.ts";
import { defineCases } from "./store-cases.ts";

const URL = "https://registry.example";
const start = new Date("2026-01-02T03:04:05.678Z");
const later = new Date("2026-01-02T04:04:05.678Z");

export const registryStoreCases = defineCases(openRegistry, {
  "returns the servers of a registry by name": async (registry) => {
    const odd = { ...server("b"), title: "Ünïcode ☂", entry: { server: { name: "b", tags: ["'", '"'] } } };

    await registry.write(URL, { seenAt: start, servers: [odd, server("a")], gone: [], mark: {} });

    assert.deepEqual(await registry.find(URL, "b"), odd);
    assert.equal(await registry.find(URL, "c"), undefined);
    const { entry: _, ...line } = odd;
    assert.deepEqual(await registry.listServers(URL), [toLine("a"), line]);
  },
  "replaces older versions, and deletes removed servers": async (registry) => {
    await registry.write(URL, { seenAt: start, servers: [server("a"), server("b")], gone: [], mark: {} });

    const newer = { ...server("a"), version: "2.0.0", status: "deprecated" };
    await registry.write(URL, { seenAt: later, servers: [newer], gone: ["b", "unknown"], mark: {} });

    assert.deepEqual(await registry.find(URL, "a"), newer);
    assert.deepEqual(
      (await registry.listServers(URL)).map(({ name }) => name),
      ["a"],
    );
  },
  "deletes servers that were not seen since, only in that registry": async (registry) => {
    const page = { gone: [], mark: {} };
    await registry.write(URL, { ...page, seenAt: start, servers: [server("old"), server("both")] });
    await registry.write("https://other.example", { ...page, seenAt: start, servers: [server("old")] });

    await registry.write(URL, { ...page, seenAt: later, servers: [server("both")], forgetBefore: later });

    assert.deepEqual(
      (await registry.listServers(URL)).map(({ name }) => name),
      ["both"],
    );
    assert.equal((await registry.listServers("https://other.example")).length, 1);
  },
  "stores the sync state of each registry": async (registry) => {
    const half = { cursor: "a:1.0.0", updatedSince: "2026-01-01T00:00:00Z" };
    const whole = { syncedAt: start, fullAt: later, updatedSince: "2026-01-02T00:00:00Z" };
    assert.equal(await registry.getSyncState(URL), undefined);

    await registry.write(URL, { seenAt: start, servers: [], gone: [], mark: half });
    assert.deepEqual(await registry.getSyncState(URL), half);
    await registry.write(URL, { seenAt: start, servers: [], gone: [], mark: whole });

    assert.deepEqual(await registry.getSyncState(URL), whole);
    assert.equal(await registry.getSyncState("https://other.example"), undefined);
  },
  "writes a page of any size as a whole or not at all": async (registry) => {
    const many = Array.from({ length: 1234 }, (_, at) => server(`s${at}`));
    await registry.write(URL, { seenAt: start, servers: many, gone: [], mark: {} });
    assert.equal((await registry.listServers(URL)).length, many.length);

    const broken = { ...server("x"), version: undefined as unknown as string };
    await assert.rejects(
      registry.write(URL, { seenAt: later, servers: [server("new"), broken], gone: ["s1"], mark: {} }),
    );

    assert.equal(await registry.find(URL, "new"), undefined);
    assert.notEqual(await registry.find(URL, "s1"), undefined);
  },
});

function server(name: string) {
  return { ...toLine(name), entry: { server: { name, version: "1.0.0" } } };
}

function toLine(name: string) {
  return { name, version: "1.0.0", status: "active", title: "", description: `Does ${name}.` };
}

async function openRegistry(db: SqlDriver) {
  await migrate(db);
  return createSqlRegistryStore(db);
}
