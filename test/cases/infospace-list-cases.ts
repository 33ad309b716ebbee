import assert from "node:assert/strict";
import type { InfospaceStore, OwnerScope, ResourceQuery } from "../../src/infospace/infospace-store.ts";
import { sql } from "../../src/store/sql.ts";
import {
  AFTER,
  createFilledCollection,
  createNumberedNotes,
  EXPIRES,
  file,
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
} from "./infospace-fixtures.ts";
import { defineCases } from "./store-cases.ts";

export const infospaceListCases = defineCases(openInfospace, {
  "lists and counts only what a caller can see": async ({ store }) => {
    for (const reach of ["session", "actor", "tenant"] as const) {
      await store.addNotes(origin(), [note(reach)], { reach });
      await store.addCollection(origin(), { name: reach }, { reach });
    }
    const seen: readonly (readonly [OwnerScope, readonly string[]])[] = [
      [me, ["tenant", "actor", "session"]],
      [{ ...me, actor: "other" }, ["tenant", "session"]],
      [{ ...me, session: "other" }, ["tenant", "actor"]],
      [{ ...me, user: "ada" }, ["tenant"]],
      [{ ...me, user: undefined }, ["tenant"]],
      [{ ...me, tenant: "b" }, []],
      [{ actor: "main", session: "s" }, []],
    ];
    for (const [whose, expected] of seen) {
      const found = await store.list({ kind: "note", whose, limit: 9 });
      assert.deepEqual(
        found.map(({ reach }) => reach),
        expected,
      );
      assert.deepEqual(
        (await store.list({ kind: "collection", whose, limit: 9 })).map(({ name }) => name),
        expected,
      );
      assert.equal(await store.count({ kind: "note", whose }), expected.length);
      assert.equal(await store.count({ kind: "collection", whose }), expected.length);
      const ids = [...(await store.contents(whose)).keys()].sort();
      assert.deepEqual(ids, found.map(({ id }) => id).sort());
    }
  },
  "keeps owners apart whose names differ in lone surrogates": async ({ store }) => {
    const tenants = ["a\0", "a\ufffd", "a\ud800", "a\udbff", "a\\u0000", "a", "A", "a ", '["a"]'];
    for (const tenant of tenants) {
      await store.addNotes(origin({ tenant, session: tenant, user: tenant }), [note(tenant)], { reach: "session" });
      await store.addNotes(origin({ tenant }), [note(tenant)], { reach: "tenant" });
    }
    for (const tenant of tenants) {
      const whose = { tenant, session: tenant, user: tenant, actor: "main" };
      const ids = [...(await store.contents(whose)).keys()];
      assert.deepEqual(
        (await store.notes(ids)).map(({ content }) => content),
        [tenant, tenant],
      );
      assert.equal(await store.count({ kind: "note", tenant }), 2);
      assert.equal(await store.count({ kind: "note", session: tenant }), 1);
    }
  },
  "lists by every filter, newest first and page by page, and counts the same": async ({ store }) => {
    await store.addNotes(origin({ callId: "x" }), createNumberedNotes(3), transient);
    await store.addNotes(origin({ action: "b", session: "t" }), [note(1, { name: "n" })], { reach: "actor" });
    await store.addNotes(origin({ tenant: "b" }), [note(1, { name: "n" })], transient);
    await createFilledCollection(store, [1, 2], { from: origin({ callId: "y" }) });
    await store.addCollection(origin({ session: "t" }), { name: "n" }, { reach: "tenant" });
    const found = async (query: Omit<ResourceQuery, "limit">) => {
      const all = await listed(store, { ...query, limit: 100 });
      assert.equal(await store.count(query), all.length);
      const paged: number[] = [];
      for (let before: number | undefined; ; before = paged.at(-1)) {
        const page = await listed(store, { ...query, before, limit: 2 });
        if (page.length === 0) break;
        paged.push(...page);
      }
      assert.deepEqual(paged, all);
      return all.join(" ");
    };

    assert.equal(await found({ kind: "note" }), "5 4 3 2 1");
    assert.equal(await found({ kind: "note", parts: true }), "7 6 5 4 3 2 1");
    assert.equal(await found({ kind: "note", parts: true, callId: "y" }), "7 6");
    assert.equal(await found({ kind: "note", callId: "x" }), "3 2 1");
    assert.equal(await found({ kind: "note", name: "n" }), "5 4");
    assert.equal(await found({ kind: "note", name: "n", whose: me }), "4");
    assert.equal(await found({ kind: "note", session: "t" }), "4");
    assert.equal(await found({ kind: "note", action: "b" }), "4");
    assert.equal(await found({ kind: "note", tenant: "b" }), "5");
    assert.equal(await found({ kind: "note", saved: true }), "4");
    assert.equal(await found({ kind: "note", saved: false }), "5 3 2 1");
    assert.equal(await found({ kind: "note", saved: false, callId: "x", whose: me, tenant: "acme" }), "3 2 1");
    assert.equal(await found({ kind: "note", name: "N" }), "");
    assert.equal(await found({ kind: "collection" }), "2 1");
    assert.equal(await found({ kind: "collection", name: "n" }), "2");
    assert.equal(await found({ kind: "collection", saved: false, callId: "y" }), "1");
    assert.deepEqual(await store.list({ kind: "note", limit: 0 }), []);
  },
  "changes the mark of a caller only for resources that it can see": async ({ store, clock }) => {
    const stranger: OwnerScope = { ...me, tenant: "other" };
    await store.addNotes(origin({ tenant: "other" }), createNumberedNotes(1), { reach: "session" });
    const [mine, theirs] = [new Set<string>(), await store.mark(stranger)];
    const marked = async (what: string) => {
      const mark = await store.mark(me);
      assert.equal(await store.mark(me), mark, what);
      assert(!mine.has(mark), what);
      mine.add(mark);
      assert.equal(await store.mark(stranger), theirs, what);
    };

    await marked("empty");
    const id = await store.addNotes(origin(), createNumberedNotes(4), transient);
    await marked("a note");
    await store.replaceNote(id, 1, note("new"), LATER);
    await marked("a change");
    const collection = await store.addCollection(origin(), {}, transient);
    await marked("a collection");
    await store.append(collection, [{ id }, note("of it")], origin());
    await marked("more in it");
    await store.complete(collection);
    await marked("complete");
    await store.removeItems(collection, [id], LATER);
    await marked("something taken out");
    await store.save("note", id, { reach: "tenant", at: LATER });
    await marked("saved");
    await store.save("collection", collection, { reach: "tenant", at: LATER });
    await marked("all of it saved");
    await store.remove("note", id);
    await marked("removed");
    await store.remove("collection", collection);
    await marked("the collection removed");
    clock.at = EXPIRES;
    await marked("expired");
    await store.expire(EXPIRES);
    assert.deepEqual(await store.contents(me), new Map());
  },
  "changes the marks of owners whose notes are in another owner's collection": async ({ store }) => {
    const other: OwnerScope = { ...me, session: "t" };
    const { id } = await createFilledCollection(store, ["a"]);
    const by = await store.addCollection(origin(), {}, transient);
    const marks = new Set([await store.mark(other)]);

    await store.append(by, notes("b"), origin({ session: "t" }));
    marks.add(await store.mark(other));
    await store.replaceCollection(id, by, LATER);
    marks.add(await store.mark(other));
    await store.save("collection", id, { reach: "session", at: LATER });
    marks.add(await store.mark(other));
    await store.remove("collection", id);
    marks.add(await store.mark(other));

    // All of their notes are gone again.
    assert.equal(marks.size, 4);
  },
  "reports a damaged row, and lists the others": async ({ store }, db) => {
    const damage = [
      sql`update notes set content = '{' where id = 1`,
      sql`update notes set properties = '[]' where id = 2`,
      sql`update notes set format = 'other' where id = 3`,
      sql`delete from note_files where note = 4`,
      sql`update notes set name = 'a"' where id = 5`,
    ];
    const good = [
      ...notes("a"),
      note("b", { properties: {} }),
      note("c"),
      file(Uint8Array.of(1)),
      note("d", { name: "a" }),
    ];
    const id = await store.addCollection(origin(), {}, transient);
    await store.append(id, [...good, note("whole")], origin());
    for (const statement of damage) await db.all(statement);

    for (const [index] of good.entries()) {
      await assert.rejects(store.note(index + 1), { code: "store_failed", message: /^note__\d is damaged/ });
    }
    assert.deepEqual(
      (await store.notes([1, 2, 3, 4, 5, 6])).map((each) => each.content),
      ["whole"],
    );
    assert.deepEqual(await listed(store, { kind: "note", parts: true, limit: 9 }), [6, 4, 1]);
    await assert.rejects(readContents(store, id), { code: "store_failed" });
    await db.all(sql`update owners set reach = 'all'`);
    await assert.rejects(store.collection(id), { code: "store_failed" });
    assert.deepEqual(await store.list({ kind: "collection", limit: 9 }), []);
  },
  "pages through thousands of items without missing or repeating one": async ({ store }) => {
    const id = await store.addCollection(origin(), {}, transient);
    for (let at = 0; at < 2_800; at += 700) {
      await store.append(id, createNumberedNotes(700, at), origin());
      // A note in between, so that the ids are not consecutive.
      if (at === 700) await store.addNotes(origin(), notes("other"), transient);
    }
    const expected = Array.from({ length: 2_800 }, (_, n) => ({ n }));
    assert.deepEqual(await readContents(store, id), expected);
    assert.equal((await requireCollection(store, id)).count, 2_800);
    const read = await readAllItems(store, id, { limit: 999 });
    assert.deepEqual(
      read.map(({ position }) => position),
      expected.map(({ n }) => n),
    );

    const gone = new Set([0, 1, 2, 499, 500, 501, 999, 1_000, 1_001, 1_399, 1_400, 2_799]);
    for (const n of gone) await store.remove("note", read[n]?.id ?? 0);

    const left = read.filter(({ position }) => !gone.has(position));
    for (const limit of [1, 7, 500, 1_000, 5_000]) assert.deepEqual(await readAllItems(store, id, { limit }), left);
    for (const from of [0, 1, 3, 498, 1_000, 1_398, 2_798, 2_799, 9_999]) {
      const page = await store.items(id, { from, limit: 3 });
      assert.deepEqual(page, left.filter(({ position }) => position >= from).slice(0, 3));
    }
    const { count, bytes } = await requireCollection(store, id);
    assert.deepEqual([count, bytes], [left.length, left.reduce((sum, item) => sum + item.bytes, 0)]);
    await store.append(id, notes("last"), origin());
    assert.deepEqual((await readAllItems(store, id, { limit: 900 })).at(-1)?.position, 2_800);
  },
  "finds the first position of notes in each version": async ({ store, clock }) => {
    const id = await store.addCollection(origin(), {}, transient);
    await store.addNotes(origin(), notes("beside"), transient);
    await store.append(id, createNumberedNotes(2_100), origin());
    const loose = await store.addNotes(origin(), notes("loose", "gone", "elsewhere"), transient);
    await store.append(id, [{ id: loose + 1 }, { id: 500 }, { id: loose }, { id: loose }], origin());
    await store.remove("note", loose + 1);
    await store.remove("note", 3);
    const asked = [2, 3, 4, 500, 1_001, 1_002, 2_101, loose, loose + 1, loose + 2, 1, 99_999, 500];

    const places = await store.positions(id, 1, asked);
    const expected = [2, 4, 500, 1_001, 1_002, 2_101].map((each) => [each, each - 2] as const);
    assert.deepEqual(places, new Map([...expected, [loose, 2_102]]));
    for (const [each, position] of places) {
      const [item] = await store.items(id, { from: position, limit: 1 });
      assert.deepEqual([item?.id, item?.position], [each, position]);
    }
    for (const each of [900, 1_500]) {
      assert.deepEqual(await store.positions(id, 1, [each]), new Map([[each, each - 2]]));
    }
    await store.removeItems(id, [2, 500], LATER);
    assert.deepEqual(await store.positions(id, 2, [2, 500, 501]), new Map([[501, 497]]));
    assert.deepEqual(await store.positions(id, 1, [2, 500]), new Map([2, 500].map((each) => [each, each - 2])));
    assert.deepEqual(await store.positions(id, 3, [4]), new Map());
    assert.deepEqual(await store.positions(id, 1, []), new Map());
    assert.deepEqual(await store.positions(99, 1, [4]), new Map());
    clock.at = AFTER;
    assert.deepEqual(await store.positions(id, 1, [4]), new Map());
  },
});

async function listed(store: InfospaceStore, { kind, ...query }: ResourceQuery): Promise<readonly number[]> {
  const found = kind === "note" ? await store.list({ kind, ...query }) : await store.list({ kind, ...query });
  return found.map(({ id }) => id);
}
