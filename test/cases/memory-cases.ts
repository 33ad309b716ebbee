import assert from "node:assert/strict";
import type { MemoryScope } from "../../src/providers/memory/memory-entry.ts";
import { type MemoryText, memoryLimits } from "../../src/providers/memory/memory-text.ts";
import { createSqlMemoryStore } from "../../src/store/memory.ts";
import { migrate } from "../../src/store/migrations.ts";
import type { SqlDriver } from "../../src/store/sql.ts";
import { defineCases } from "./store-cases.ts";

const at = (minute: number): Date => new Date(Date.UTC(2026, 0, 2, 3, minute));
const author = (minute: number, actor = "ann") => ({ actor, user: "u", at: at(minute) });
const shared: MemoryScope = { tenant: "t", layer: "shared", actor: "" };
const agent: MemoryScope = { tenant: "t", layer: "agent", actor: "ann" };
const text = (slug: string, body = "body"): MemoryText => ({ slug, name: "N", description: "D", type: "user", body });

async function openMemory(db: SqlDriver) {
  await migrate(db);
  return createSqlMemoryStore(db);
}

export const memoryStoreCases = defineCases(openMemory, {
  "returns an entry as it was written": async (store) => {
    for (const body of ["'); drop table memory_entries; --", "🦑\n\n# no heading", " ", "__proto__"]) {
      await store.put(shared, { ...text("a", body), name: body }, author(1));
      const found = await store.get(shared, "a");
      assert.deepEqual([found?.body, found?.name, found?.user, found?.changedAt], [body, body, "u", at(1)]);
    }
    await store.put(shared, text("b", "nul\0 half \ud800"), author(2));
    assert.equal((await store.get(shared, "b"))?.body, "nul\uFFFD half \uFFFD");
  },
  "keeps layers, actors and tenants apart": async (store) => {
    const scopes = [shared, agent, { ...agent, actor: "bob" }, { ...shared, tenant: "" }, { ...agent, tenant: "" }];
    for (const [index, scope] of scopes.entries()) await store.put(scope, text("a", `body ${index}`), author(1));

    await store.forget(agent, "a", author(2));

    for (const [index, scope] of scopes.entries()) {
      const bodies = (await store.list(scope)).map(({ slug, characters }) => [slug, characters]);
      assert.deepEqual(bodies, scope === agent ? [] : [["a", 6]]);
      assert.equal((await store.get(scope, "a"))?.body, scope === agent ? undefined : `body ${index}`);
    }
  },
  "ends versions instead of removing them, and restarts the count never": async (store) => {
    assert.deepEqual(await store.put(shared, text("a", "one"), author(1)), { version: 1, change: "created" });
    assert.deepEqual(await store.put(shared, text("a", "one"), author(2)), { version: 1, change: "unchanged" });
    assert.deepEqual(await store.put(shared, text("a", "two"), author(3, "bob")), { version: 2, change: "replaced" });
    assert.equal(await store.forget(shared, "a", author(4)), true);
    assert.equal(await store.forget(shared, "a", author(5)), false);
    assert.deepEqual(await store.put(shared, text("a", "three"), author(6)), { version: 3, change: "created" });

    const { versions, total } = await store.history(shared, "a", { offset: 0, limit: 10 });
    assert.equal(total, 3);
    assert.deepEqual(
      versions.map(({ version, body, ended }) => [version, body, ended?.how, ended?.by]),
      [
        [3, "three", undefined, undefined],
        [2, "two", "forgotten", "ann"],
        [1, "one", "replaced", "bob"],
      ],
    );
    const paged = await store.history(shared, "a", { offset: 1, limit: 1 });
    assert.deepEqual([paged.total, paged.versions.map(({ version }) => version)], [3, [2]]);
    assert.equal((await store.getVersion(shared, "a", 1))?.body, "one");
    assert.equal(await store.getVersion(shared, "a", 9), undefined);
  },
  "lists the last changed first and reads only current versions": async (store) => {
    for (const slug of ["a", "b", "c"]) await store.put(shared, text(slug), author(1));
    const old = (await store.get(shared, "a"))?.id ?? 0;
    await store.put(shared, text("a", "new"), author(2));

    const listed = await store.list(shared);

    assert.deepEqual(
      listed.map(({ slug }) => slug),
      ["a", "c", "b"],
    );
    const read = await store.read([old, ...listed.map(({ id }) => id)]);
    assert.deepEqual(read.map(({ body }) => body).sort(), ["body", "body", "new"]);
    assert.deepEqual(await store.read([]), []);
  },
  "limits the entries of a layer, not those of another": async (store) => {
    for (let index = 0; index < memoryLimits.entries; index++) await store.put(agent, text(`m${index}`), author(1));

    await assert.rejects(store.put(agent, text("more"), author(2)), { code: "quota_exceeded" });

    assert.equal((await store.put(agent, text("m5", "new"), author(2))).change, "replaced");
    assert.equal((await store.put(shared, text("more"), author(2))).change, "created");
    await store.forget(agent, "m0", author(3));
    assert.equal((await store.put(agent, text("more"), author(3))).change, "created");
  },
  "keeps the last versions of an entry": async (store) => {
    for (let index = 1; index <= 103; index++) await store.put(shared, text("a", `body ${index}`), author(1));

    const { versions, total } = await store.history(shared, "a", { offset: 0, limit: 200 });

    assert.deepEqual([total, versions.at(-1)?.version, versions[0]?.version], [101, 3, 103]);
  },
  "prunes versions that ended before a time, and no current one": async (store) => {
    await store.put(shared, text("a", "one"), author(1));
    await store.put(shared, text("a", "two"), author(5));
    await store.put(shared, text("b"), author(1));
    await store.forget(shared, "b", author(9));

    await store.prune(at(6));

    assert.equal((await store.history(shared, "a", { offset: 0, limit: 9 })).total, 1);
    assert.equal((await store.history(shared, "b", { offset: 0, limit: 9 })).total, 1);
    assert.equal((await store.get(shared, "a"))?.body, "two");
  },
  "lets one of two concurrent writers come after the other": async (store) => {
    const changes = await Promise.all(
      ["one", "two", "three"].map((body) => store.put(shared, text("a", body), author(1))),
    );

    assert.deepEqual(changes.map(({ version }) => version).sort(), [1, 2, 3]);
    assert.equal((await store.list(shared)).length, 1);
  },
});
