import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { MAX_VERSIONS } from "../../src/infospace/infospace-store.ts";
import { createSqlInfospaceStore } from "../../src/store/infospace.ts";
import type { Sql, SqlQuery } from "../../src/store/sql.ts";
import {
  AFTER,
  createFilledCollection,
  createNumberedNotes,
  EXPIRES,
  file,
  LATER,
  me,
  NEXT_DAY,
  note,
  notes,
  openInfospace,
  origin,
  requireCollection,
  requireNote,
  START,
  transient,
} from "./infospace-fixtures.ts";
import { defineCases } from "./store-cases.ts";

const odd = [
  "nul\0here",
  "half \ud800 pair",
  "__proto__",
  "🦑",
  "line\u2028separator",
  'a "quote" \\',
  "'; drop table --",
];

export const infospaceCases = defineCases(openInfospace, {
  "returns a note as it was stored": async ({ store }) => {
    for (const text of odd) {
      const properties: JsonObject = JSON.parse(`{"__proto__": {"polluted": 1}, "x": ${JSON.stringify(text)}}`);
      const content: JsonObject = { ...properties, list: [text, null, 1.5, true] };
      const from = origin({
        action: text,
        callId: text,
        actor: text,
        session: text,
        turn: text,
        tenant: text,
        user: text,
      });
      const put = note(content, { name: text, properties });

      const id = await store.addNotes(from, [put], transient);

      const { bytes, hash } = put;
      const facts = {
        id,
        name: text,
        properties,
        origin: from,
        ...transient,
        version: 1,
        bytes,
        changedAt: START,
        format: "json",
        hash,
      };
      assert.deepEqual(await store.noteFacts(id), facts);
      assert.deepEqual(await store.note(id), { ...facts, content });
      assert.deepEqual(await store.notes([id, id, 999]), [{ ...facts, content }]);
      assert.deepEqual(await store.list({ kind: "note", name: text, session: text, tenant: text, limit: 9 }), [facts]);
      assert.deepEqual(await store.list({ kind: "note", action: text, callId: text, limit: 9 }), [facts]);
      const collection = await store.addCollection(from, { name: text, properties }, transient);
      assert.deepEqual((await requireCollection(store, collection)).origin, from);
      assert.equal((await requireCollection(store, collection)).name, text);
      assert.deepEqual((await requireCollection(store, collection)).properties, properties);
    }
    assert.equal(Object.hasOwn(Object.prototype, "polluted"), false);
  },
  "stores text, all kinds of JSON and the bytes of files": async ({ store }) => {
    const values = ["", "text\0", null, false, 0, [], {}, [[1], { a: "\udc00" }]];
    const bytes = Uint8Array.from({ length: 256 }, (_, byte) => byte);

    const first = await store.addNotes(origin(), [...notes(...values), file(bytes)], transient);

    for (const [index, value] of values.entries()) {
      const found = await store.note(first + index);
      assert.deepEqual([found?.content, found?.format], [value, typeof value === "string" ? "text" : "json"]);
    }
    const base64 = Buffer.from(bytes).toString("base64");
    const kept = await store.note(first + values.length);
    assert.deepEqual(kept?.content, { media_type: "image/png", size: 256, base64 });
    assert.equal(kept?.format, "file");
  },
  "assigns ascending ids, consecutive within one call, and never reuses one": async ({ store }, db) => {
    assert.equal(await store.addNotes(origin(), createNumberedNotes(1_200), transient), 1);
    assert.equal(await store.addNotes(origin(), [], transient), 1_201);
    const newest = await store.addNotes(origin(), createNumberedNotes(1), transient);
    assert.equal(newest, 1_201);
    assert.deepEqual((await store.note(1_200))?.content, { n: 1_199 });
    await store.remove("note", newest);
    await store.addCollection(origin(), {}, transient);
    await store.remove("collection", 1);

    const again = (await openInfospace(db)).store;
    assert.equal(await again.addNotes(origin(), createNumberedNotes(1), transient), 1_202);
    assert.equal(await again.addCollection(origin(), {}, transient), 2);
    await again.expire(NEXT_DAY);
    assert.equal(await again.addNotes(origin(), createNumberedNotes(1), transient), 1_203);
  },
  "replaces content, and keeps the old content in the history": async ({ store }) => {
    const first = note("one", { name: "plan", properties: { a: 1 } });
    const id = await store.addNotes(origin(), [first], transient);
    const second = file(Uint8Array.of(1, 2, 3));

    const replaced = await store.replaceNote(id, 1, second, LATER);
    assert.equal(replaced?.version, 2);
    assert.deepEqual(replaced, await store.noteFacts(id));
    assert.deepEqual([replaced?.name, replaced?.properties], ["plan", { a: 1 }]);
    assert.deepEqual([replaced?.changedAt, replaced?.hash, replaced?.bytes], [LATER, second.hash, 3]);
    const third = note({ three: 3 }, { name: "other", properties: {} });
    await store.replaceNote(id, 2, third, EXPIRES);

    const now = await store.note(id);
    assert.deepEqual([now?.version, now?.content, now?.name, now?.properties], [3, { three: 3 }, "other", {}]);
    assert.deepEqual(await store.history(id), [
      { version: 1, format: "text", hash: first.hash, bytes: first.bytes, changedAt: START },
      { version: 2, format: "file", hash: second.hash, bytes: 3, changedAt: LATER },
    ]);
    assert.deepEqual((await store.noteVersion(id, 1))?.content, "one");
    const before = await store.noteVersion(id, 2);
    assert.deepEqual(before?.content, { media_type: "image/png", size: 3, base64: "AQID" });
    assert.deepEqual([before?.version, before?.format, before?.changedAt], [2, "file", LATER]);
    assert.deepEqual(await store.noteVersion(id, 3), now);
    assert.equal(await store.noteVersion(id, 4), undefined);
  },
  "keeps only the newest earlier versions of a note": async ({ store }, db) => {
    const id = await store.addNotes(origin(), [file(Uint8Array.of(1))], transient);
    const other = await store.addNotes(origin(), notes("other"), transient);
    await store.replaceNote(other, 1, note("more"), LATER);
    const last = MAX_VERSIONS + 4;
    for (let version = 1; version < last; version++) {
      const next = version % 2 === 0 ? note(version) : file(Uint8Array.of(version));
      assert.equal((await store.replaceNote(id, version, next, LATER))?.version, version + 1);
    }

    const kept = Array.from({ length: MAX_VERSIONS }, (_, at) => last - MAX_VERSIONS + at);
    assert.deepEqual(
      (await store.history(id)).map(({ version }) => version),
      kept,
    );
    assert.equal(await store.noteVersion(id, last - MAX_VERSIONS - 1), undefined);
    assert.deepEqual((await store.noteVersion(id, last - MAX_VERSIONS))?.version, last - MAX_VERSIONS);
    assert.equal((await store.note(id))?.version, last);
    assert.equal((await store.history(other)).length, 1);
    const files = await db.all({ parts: ["select version from note_files order by version"], values: [] });
    assert.deepEqual(
      files.map((row) => Number(row.version)),
      [...kept, last].filter((version) => version % 2 === 0),
    );
  },
  "does not replace a note of another version": async ({ store }) => {
    const id = await store.addNotes(origin(), notes("one"), transient);

    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, at) => store.replaceNote(id, 1, note(`by ${at}`), LATER)),
    );

    assert.equal(answers.filter((answer) => answer !== undefined).length, 1);
    assert.equal((await requireNote(store, id)).version, 2);
    assert.equal((await store.history(id)).length, 1);
    assert.equal(await store.replaceNote(id, 3, note("too new"), LATER), undefined);
    assert.equal(await store.replaceNote(99, 1, note("nowhere"), LATER), undefined);
  },
  "hides expired notes everywhere, before they are removed": async ({ store, clock }, db) => {
    const id = await store.addNotes(origin(), [note("x", { name: "n" }), file(Uint8Array.of(1))], transient);
    await store.replaceNote(id, 1, note("y"), LATER);
    const collection = await createFilledCollection(store, [1, 2]);
    const saved = await store.addNotes(origin(), notes("kept"), { reach: "session" });
    const looks = async () => [
      await store.note(id),
      await store.noteFacts(id),
      (await store.notes([id])).at(0),
      (await store.history(id)).at(0),
      await store.noteVersion(id, 1),
      await store.noteVersion(id, 2),
      await store.collection(collection.id),
      (await store.items(collection.id, { from: 0, limit: 9 })).at(0),
      (await store.list({ kind: "note", name: "n", limit: 9 })).at(0),
      (await store.list({ kind: "collection", limit: 9 })).at(0),
      (await store.contents(me)).get(id),
      [...(await store.contents({ collection: collection.id }))].at(0),
      (await store.count({ kind: "collection" })) === 1 ? 1 : undefined,
      (await store.count({ kind: "note", parts: true })) === 5 ? 5 : undefined,
    ];
    clock.at = "2026-01-02T03:59:59.999Z";
    assert.equal((await looks()).includes(undefined), false);

    clock.at = EXPIRES;
    const [first, ...others] = new Set(await looks());
    assert.deepEqual([first, others], [undefined, []]);
    assert.equal(await store.replaceNote(id, 2, note("z"), EXPIRES), undefined);
    assert.equal(await store.append(collection.id, createNumberedNotes(1), origin()), undefined);
    assert.equal(await store.save("note", id, { reach: "tenant", at: EXPIRES }), undefined);
    assert.equal(await store.save("collection", collection.id, { reach: "tenant", at: EXPIRES }), undefined);
    assert.equal(await store.removeItems(collection.id, [3], EXPIRES), 0);
    assert.deepEqual(await store.remove("note", id), { notes: 0, collections: 0 });
    assert.deepEqual(await store.remove("collection", collection.id), { notes: 0, collections: 0 });

    assert.deepEqual(await store.expire("2026-01-02T03:59:59.999Z"), { notes: 0, collections: 0 });
    assert.deepEqual(await store.expire(EXPIRES), { notes: 4, collections: 1 });
    assert.deepEqual(await store.expire(AFTER), { notes: 0, collections: 0 });
    assert.deepEqual((await store.note(saved))?.content, "kept");
    await store.remove("note", saved);
    for (const table of ["notes", "note_history", "note_files", "collections", "members", "origins", "owners"]) {
      assert.deepEqual(await db.all({ parts: [`select * from ${table}`], values: [] }), [], table);
    }
  },
  "saves a note permanently, with a visibility and a name": async ({ store, clock }) => {
    const id = await store.addNotes(origin(), [note("x", { name: "before" })], transient);

    const saved = await store.save("note", id, { reach: "actor", at: LATER });
    assert.deepEqual(
      [saved?.reach, saved?.expiresAt, saved?.name, saved?.changedAt],
      ["actor", undefined, "before", LATER],
    );
    assert.deepEqual(saved, await store.noteFacts(id));
    assert.equal((await store.save("note", id, { reach: "session", name: "now", at: LATER }))?.name, "now");
    assert.equal((await requireNote(store, id)).reach, "session");
    assert.equal(await store.save("note", 99, { reach: "actor", at: LATER }), undefined);
    assert.equal(await store.save("collection", id, { reach: "actor", at: LATER }), undefined);

    clock.at = NEXT_DAY;
    assert.deepEqual(await store.expire(NEXT_DAY), { notes: 0, collections: 0 });
    assert.equal((await store.note(id))?.content, "x");
  },
  "saves several at once or none": async ({ store, clock }, db) => {
    const first = await store.addNotes(origin(), createNumberedNotes(3), transient);
    const { id } = await createFilledCollection(store, ["a"]);
    const all = [
      { kind: "collection", id, reach: "tenant", at: LATER },
      { kind: "note", id: 99, reach: "tenant", at: LATER },
      { kind: "note", id: first, reach: "actor", name: "one", at: LATER },
      { kind: "note", id: first + 2, reach: "session", at: LATER },
    ] as const;
    const saved = () => Promise.all([store.count({ kind: "note", saved: true, parts: true }), store.collection(id)]);
    const [, before] = await saved();
    // Fails after every number of statements.
    for (let left = 0; ; left++) {
      const failing = createSqlInfospaceStore(failingAfter(db, left), () => new Date(clock.at));
      const failed = await failing.saveAll(all).then(
        () => false,
        () => true,
      );
      if (!failed) break;
      assert.deepEqual(await saved(), [0, before]);
    }

    const [count, after] = await saved();
    assert.deepEqual([count, after?.reach, after?.expiresAt], [3, "tenant", undefined]);
    const { reach, name } = await requireNote(store, first);
    assert.deepEqual([reach, name], ["actor", "one"]);
  },
  "changes the index state of a note only with its content, name or properties": async ({ store }) => {
    const id = await store.addNotes(origin(), notes("x"), { reach: "session" });
    const seen: (string | undefined)[] = [];
    const look = async () => seen.push((await store.contents(me)).get(id));
    await look();
    await store.replaceNote(id, 1, note("y"), LATER);
    await look();
    await store.save("note", id, { reach: "session", name: "called", at: LATER });
    await look();
    await store.save("note", id, { reach: "session", at: LATER });
    await look();
    await store.replaceNote(id, 2, { ...note("y"), properties: { kind: "k" } }, LATER);
    await look();
    assert.equal(new Set(seen.slice(0, 3)).size, 3);
    assert.equal(seen[3], seen[2]);
    assert.equal(new Set(seen).size, 4);
  },
});

/** Fails after this many statements. */
function failingAfter(db: Sql, statements: number): Sql {
  let left = statements;
  const counting = (inner: Sql): Sql => ({
    async all(query: SqlQuery) {
      if (left-- <= 0) throw new Error("no more");
      return inner.all(query);
    },
    transaction: (work) => inner.transaction((tx) => work(counting(tx))),
  });
  return counting(db);
}
