import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { infospaceCases } from "../../test/cases/infospace-cases.ts";
import { infospaceCollectionCases } from "../../test/cases/infospace-collection-cases.ts";
import {
  createNumberedNotes,
  LATER,
  me,
  note,
  notes,
  openInfospace,
  origin,
  readAllItems,
  readContents,
  requireCollection,
  transient,
} from "../../test/cases/infospace-fixtures.ts";
import { infospaceListCases } from "../../test/cases/infospace-list-cases.ts";
import { infospaceQuotaCases } from "../../test/cases/infospace-quota-cases.ts";
import { openSqlite } from "./drivers/sqlite.ts";
import { createSqlInfospaceStore } from "./infospace.ts";
import { migrate } from "./migrations.ts";
import type { Sql, SqlDriver, SqlQuery } from "./sql.ts";

const drivers: Record<string, () => Promise<SqlDriver>> = {
  "SQLite in a file": () => openSqlite(temporaryFile()),
  "SQLite in memory": () => openSqlite(":memory:"),
};

describe.each(Object.entries(drivers))("%s", (_driver, open) => {
  test.each([...infospaceCases, ...infospaceCollectionCases, ...infospaceListCases, ...infospaceQuotaCases])(
    "$name",
    async ({ run }) => {
      const db = await open();
      await run(db).finally(() => db.close());
    },
  );
});

test("two concurrent writers give every note its own id", async () => {
  const path = temporaryFile();
  const stores = [await storeIn(path), await storeIn(path)] as const;
  const shared = await stores[0].addCollection(origin(), {}, transient);

  const own = await Promise.all(
    Array.from({ length: 40 }, async (_, at) => {
      const store = stores[at % 2 === 0 ? 0 : 1];
      const first = await store.addNotes(origin({ callId: `c${at}` }), notes(`${at} a`, `${at} b`), transient);
      await store.append(shared, [note(`${at} c`), { id: first }, note(`${at} d`)], origin());
      return [first, first + 1];
    }),
  );

  expect(new Set(own.flat()).size).toBe(80);
  const items = await readAllItems(stores[1], shared, { limit: 7 });
  expect(items.map(({ position }) => position)).toEqual(Array.from({ length: 120 }, (_, at) => at));
  for (let at = 0; at < items.length; at += 3) {
    const [name] = String(items[at]?.content).split(" ");
    expect(items.slice(at, at + 3).map(({ content }) => content)).toEqual([`${name} c`, `${name} a`, `${name} d`]);
  }
  expect((await requireCollection(stores[0], shared)).count).toBe(120);
  expect(await stores[0].count({ kind: "note", parts: true })).toBe(160);
});

test("two connections that replace the same note take turns", async () => {
  const path = temporaryFile();
  const stores = [await storeIn(path), await storeIn(path)] as const;
  const id = await stores[0].addNotes(origin(), notes("0"), transient);

  await Promise.all(
    stores.map(async (store, which) => {
      for (let done = 0; done < 20; ) {
        const { version = 0 } = (await store.noteFacts(id)) ?? {};
        if ((await store.replaceNote(id, version, note(`${which} ${done}`), LATER)) !== undefined) done++;
      }
    }),
  );

  const history = await stores[0].history(id);
  expect(history.map(({ version }) => version)).toEqual(Array.from({ length: 40 }, (_, at) => at + 1));
  const said = await Promise.all(history.slice(1).map(({ version }) => stores[1].noteVersion(id, version)));
  const last = await stores[1].note(id);
  expect(new Set([...said, last].map((version) => version?.content)).size).toBe(40);
});

test("every query uses an index", async () => {
  const db = await openSqlite(":memory:");
  onTestFinished(() => db.close());
  await migrate(db);
  const plans = new Map<string, readonly string[]>();
  const store = createSqlInfospaceStore(explaining(db, plans), () => new Date(LATER));

  for (const [at, reach] of (["session", "actor"] as const).entries()) {
    const id = await store.addCollection(origin({ callId: `c${at}` }), {}, { ...transient, reach });
    await store.append(id, createNumberedNotes(3), origin());
    await store.append(id, [{ id: 1 }, ...createNumberedNotes(2)], origin());
  }
  await store.items(1, { from: 1, limit: 2 });
  await store.items(1, { from: 1, limit: 2, version: 1 });
  await store.positions(1, 1, [1, 2]);
  await store.note(1);
  await store.notes([1, 2]);
  await store.replaceNote(2, 1, note("x"), LATER);
  await store.history(2);
  await store.noteVersion(2, 1);
  for (const filter of [{}, { name: "n" }, { callId: "c" }, { saved: true }, { parts: true }]) {
    await store.list({ kind: "note", whose: me, limit: 3, ...filter });
    await store.list({ kind: "collection", whose: me, limit: 3, ...filter });
    await store.count({ kind: "note", whose: me, ...filter });
  }
  for (const filter of [{ name: "n" }, { callId: "c" }, { session: "s" }, { before: 9 }]) {
    await store.list({ kind: "note", limit: 3, ...filter });
  }
  await store.mark(me);
  await store.contents(me);
  await store.contents({ collection: 1 });
  await store.removeItems(1, [2], LATER);
  await store.save("collection", 1, { reach: "tenant", at: LATER });
  await store.saveAll([{ kind: "note", id: 2, reach: "tenant", at: LATER }]);
  await store.replaceCollection(1, 2, LATER);
  await store.remove("note", 3);
  await store.remove("collection", 1);
  await store.addNotes(origin(), createNumberedNotes(2), transient);
  await store.expire("2027");

  const scanning = [...plans].filter(([, plan]) => plan.some((step) => /^SCAN (?!\d+-ROW VALUES)/.test(step)));
  expect(scanning).toEqual([]);
  const paging = [...plans].filter(([text]) => text.includes("as position"));
  expect(paging).toHaveLength(2);
  expect(paging.filter(([, plan]) => plan.some((step) => step.includes("TEMP B-TREE")))).toEqual([]);
});

test("another process finds what a process has saved", async () => {
  const path = temporaryFile();
  const first = await openSqlite(path);
  const { store } = await openInfospace(first);
  const id = await store.addCollection(origin(), {}, transient);
  await store.append(id, notes("a", { b: [1] }), origin());
  await store.save("collection", id, { reach: "tenant", name: "kept", at: LATER });
  const before = [await store.collection(id), await store.note(2)];
  await first.close();

  const again = await storeIn(path);

  expect([await again.collection(id), await again.note(2)]).toEqual(before);
  expect(await readContents(again, id)).toEqual(["a", { b: [1] }]);
});

/** Asks the engine how it goes about each statement before it runs. */
function explaining(db: Sql, plans: Map<string, readonly string[]>): Sql {
  return {
    async all(query: SqlQuery) {
      const [first = "", ...rest] = query.parts;
      const plan = await db.all({ ...query, parts: [`explain query plan ${first}`, ...rest] });
      plans.set(
        query.parts.join("?").replace(/\s+/g, " "),
        plan.map(({ detail }) => String(detail)),
      );
      return db.all(query);
    },
    transaction: (work) => db.transaction((tx) => work(explaining(tx, plans))),
  };
}

async function storeIn(path: string) {
  const db = await openSqlite(path);
  onTestFinished(() => db.close());
  return (await openInfospace(db)).store;
}

function temporaryFile(): string {
  const folder = mkdtempSync(join(tmpdir(), "qm-infospace-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "store.db");
}
