import assert from "node:assert/strict";
import type { NoteVisibility } from "../../src/infospace/note.ts";
import {
  AFTER,
  createFilledCollection,
  EXPIRES,
  LATER,
  me,
  NEXT_DAY,
  note,
  notes,
  openInfospace,
  origin,
  readAllItems,
  readContents,
  requireCollection,
  requireNote,
  START,
  transient,
} from "./infospace-fixtures.ts";
import { defineCases } from "./store-cases.ts";

export const infospaceCollectionCases = defineCases(openInfospace, {
  "appends existing and new notes to a collection in order": async ({ store }) => {
    const there = await store.addNotes(origin(), notes("a", "b"), transient);
    const id = await store.addCollection(origin(), { name: "c", properties: { p: 1 } }, transient);
    const empty = {
      id,
      name: "c",
      properties: { p: 1 },
      origin: origin(),
      ...transient,
      version: 1,
      changedAt: START,
    };
    assert.deepEqual(await store.collection(id), { ...empty, bytes: 0, count: 0, complete: false });

    const late = origin({ callId: "d", at: LATER });
    const now = await store.append(
      id,
      [{ id: there + 1 }, note("c"), { id: there }, { id: there + 1 }, note("d")],
      late,
    );

    assert.deepEqual(now, { ...empty, changedAt: LATER, bytes: 15, count: 5, complete: false });
    assert.deepEqual(await store.collection(id), now);
    const items = await readAllItems(store, id);
    assert.deepEqual(
      items.map(({ position, content }) => `${position}${content}`),
      ["0b", "1c", "2a", "3b", "4d"],
    );
    assert.deepEqual(
      items.map((item) => item.id),
      [2, 3, 1, 2, 4],
    );
    const { bytes, hash } = note("b");
    assert.deepEqual(items[0], { position: 0, id: there + 1, content: "b", bytes, hash });
    const made = await requireNote(store, 3);
    assert.deepEqual([made.partOf, made.origin, made.expiresAt, made.reach], [id, late, EXPIRES, "session"]);
    assert.equal((await requireNote(store, there)).partOf, undefined);
    await store.complete(id);
    assert.equal((await requireCollection(store, id)).complete, true);
    assert.deepEqual(await store.append(id, [], late), await store.collection(id));
    assert.equal(await store.append(99, notes("x"), late), undefined);
    assert.deepEqual(await store.contents({ collection: id }), new Map(items.map((item) => [item.id, item.hash])));
  },
  "appends nothing if one of the notes does not exist": async ({ store }) => {
    const before = await createFilledCollection(store, ["a"]);

    await assert.rejects(store.append(before.id, [note("b"), { id: 77 }, note("c")], origin()), {
      code: "not_found",
      message: /^note__77 does not exist/,
    });

    assert.deepEqual(await store.collection(before.id), before);
    assert.deepEqual(await readContents(store, before.id), ["a"]);
    assert.equal(await store.count({ kind: "note", parts: true }), 1);
  },
  "keeps the positions of other items when a note is removed": async ({ store }) => {
    const { id } = await createFilledCollection(store, [0, 1, 2, 3, 4, 5, 6, 7]);
    const read: unknown[] = [];

    for (let from = 0; ; ) {
      const page = await store.items(id, { from, limit: 2 });
      const last = page.at(-1);
      if (last === undefined) break;
      read.push(...page.map(({ content }) => content));
      from = last.position + 1;
      await store.remove("note", last.id);
    }

    assert.deepEqual(read, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert.deepEqual(await readContents(store, id), [0, 2, 4, 6]);
  },
  "updates count and bytes when a note is changed or removed": async ({ store }) => {
    const { id } = await createFilledCollection(store, ["a", "b"]);
    const other = await store.addCollection(origin(), {}, transient);
    await store.append(other, [{ id: 2 }, { id: 1 }, { id: 2 }, { id: 2 }], origin());
    const sizes = async () => {
      const both = [await requireCollection(store, id), await requireCollection(store, other)];
      return both.map(({ count, bytes }) => `${count}:${bytes}`).join(" ");
    };
    assert.equal(await sizes(), "2:6 4:12");

    await store.replaceNote(2, 1, note("12345"), LATER);
    assert.equal(await sizes(), "2:10 4:24");
    assert.deepEqual(await readContents(store, other), ["12345", "a", "12345", "12345"]);
    assert.deepEqual(await store.remove("note", 2), { notes: 1, collections: 0 });
    assert.equal(await sizes(), "1:3 1:3");
    await store.addNotes(origin(), notes("beside", "beside"), transient);
    const last = await createFilledCollection(store, ["last"]);
    assert.deepEqual(
      [await store.remove("note", 4), await store.remove("note", 3)].map((gone) => gone.notes),
      [1, 1],
    );
    assert.equal(await sizes(), "1:3 1:3");
    assert.equal((await requireCollection(store, last.id)).count, 1);
    await store.addNotes(origin(), notes("beside"), transient);
    await store.remove("note", 6);
    assert.equal((await requireCollection(store, last.id)).count, 1);
    assert.equal(await store.noteVersion(2, 1), undefined);
    assert.deepEqual(await store.history(2), []);
    assert.deepEqual(await store.remove("note", 2), { notes: 0, collections: 0 });
  },
  "removes items in a new version, and keeps the version before": async ({ store }) => {
    const { id } = await createFilledCollection(store, ["a", "b", "c", "d"]);
    await store.append(id, [{ id: 2 }, { id: 4 }], origin());
    await store.remove("note", 4);

    assert.equal(await store.removeItems(id, [2, 3, 4, 77], LATER), 3);

    const now = await requireCollection(store, id);
    assert.deepEqual([now.version, now.count, now.bytes, now.changedAt], [2, 1, 3, LATER]);
    assert.deepEqual(
      (await readAllItems(store, id)).map(({ content, position }) => [content, position]),
      [["a", 0]],
    );
    assert.deepEqual(await readContents(store, id, 1), ["a", "b", "c", "b"]);
    assert.deepEqual(await readContents(store, id, 3), []);
    assert.equal(await store.removeItems(id, [2, 77], LATER), 0);
    assert.equal(await store.removeItems(99, [1], LATER), 0);
    assert.deepEqual(await store.collection(id), now);
    await store.append(id, [{ id: 2 }, note("e")], origin());
    assert.deepEqual(await readContents(store, id), ["a", "b", "e"]);
    assert.deepEqual(await readContents(store, id, 1), ["a", "b", "c", "b"]);
  },
  "replaces a collection by the items of another, which is removed": async ({ store, clock }) => {
    const { id } = await createFilledCollection(store, ["a", "b"]);
    await store.save("collection", id, { reach: "actor", name: "name", at: START });
    const by = await store.addCollection(origin({ callId: "d" }), { properties: { q: 2 } }, transient);
    await store.append(by, notes("x", "y"), origin({ callId: "d" }));
    await store.removeItems(by, [3], LATER);
    await store.append(by, [{ id: 1 }], origin());

    const now = await store.replaceCollection(id, by, LATER);

    assert.deepEqual(now, await store.collection(id));
    assert.deepEqual([now?.version, now?.count, now?.bytes, now?.complete], [2, 2, 6, false]);
    assert.deepEqual([now?.name, now?.properties, now?.reach, now?.changedAt], ["name", { q: 2 }, "actor", LATER]);
    assert.equal(await store.collection(by), undefined);
    assert.deepEqual(await readContents(store, id), ["y", "a"]);
    assert.deepEqual(await readContents(store, id, 1), ["a", "b"]);
    const moved = await requireNote(store, 4);
    assert.deepEqual([moved.partOf, moved.reach, moved.expiresAt], [id, "actor", undefined]);
    assert.equal(await store.note(3), undefined);

    for (const [to, from] of [
      [99, id],
      [id, 99],
      [id, by],
      [id, id],
    ] as const) {
      assert.equal(await store.replaceCollection(to, from, LATER), undefined);
    }
    assert.deepEqual(await store.collection(id), now);
    clock.at = NEXT_DAY;
    assert.deepEqual(await readContents(store, id), ["y", "a"]);
  },
  "reports count and bytes of each version": async ({ store, clock }) => {
    const { id } = await createFilledCollection(store, ["a", "bb", "ccc"]);
    await store.append(id, [{ id: 1 }], origin());
    await store.removeItems(id, [2], LATER);
    const by = await store.addCollection(origin(), {}, transient);
    await store.replaceCollection(id, by, LATER);
    const held = () => Promise.all([0, 1, 2, 3, 4].map((version) => store.collectionVersion(id, version)));

    const [all, some, none] = [
      { count: 4, bytes: 3 + 4 + 5 + 3 },
      { count: 3, bytes: 3 + 5 + 3 },
      { count: 0, bytes: 0 },
    ];
    assert.deepEqual(await held(), [undefined, all, some, none, undefined]);
    assert.equal(await store.collectionVersion(id, 1.5), undefined);
    assert.equal(await store.collectionVersion(99, 1), undefined);
    await store.remove("note", 1);
    assert.deepEqual(await held(), [undefined, { count: 2, bytes: 9 }, { count: 1, bytes: 5 }, none, undefined]);
    clock.at = AFTER;
    assert.equal(await store.collectionVersion(id, 1), undefined);
  },
  "saves the items of a collection with it, also later ones": async ({ store, clock }) => {
    const { id } = await createFilledCollection(store, ["a", "b"]);
    await store.append(id, notes("c"), origin({ actor: "side" }));
    const loose = await store.addNotes(origin({ session: "t" }), notes("loose", "other"), transient);
    await store.removeItems(id, [1], LATER);

    const saved = await store.save("collection", id, { reach: "tenant", name: "kept", at: LATER });
    assert.deepEqual(saved, await store.collection(id));
    assert(saved !== undefined && saved.expiresAt === undefined);
    assert.deepEqual([saved.reach, saved.name, saved.changedAt], ["tenant", "kept", LATER]);
    await store.append(id, [note("later"), { id: loose }], origin());

    const standing = async (each: number) => {
      const { reach, expiresAt } = await requireNote(store, each);
      return [reach, expiresAt];
    };
    for (const each of [2, 3, loose, loose + 2]) assert.deepEqual(await standing(each), ["tenant", undefined]);
    // A note of an earlier version keeps its visibility.
    assert.deepEqual(await standing(1), ["session", undefined]);
    assert.deepEqual(await standing(loose + 1), ["session", EXPIRES]);
    clock.at = NEXT_DAY;
    assert.deepEqual(await store.expire(NEXT_DAY), { notes: 1, collections: 0 });
    assert.deepEqual(await readContents(store, id), ["b", "c", "later", "loose"]);
    assert.deepEqual(await readContents(store, id, 1), ["a", "b", "c"]);
    assert.equal(await store.count({ kind: "note", whose: { ...me, user: "ada" }, parts: true }), 4);
  },
  "never shortens the life or visibility of a note in a collection": async ({ store }) => {
    const all = ["session", "actor", "tenant"] as const;
    const ends = [EXPIRES, AFTER, undefined];
    for (const [had, is] of all.flatMap((one) => all.map((other) => [one, other] as const))) {
      for (const [until, kept] of ends.flatMap((one) => ends.map((other) => [one, other] as const))) {
        const first = await store.addNotes(origin(), notes("a"), { reach: had, expiresAt: until });
        const id = await store.addCollection(origin(), {}, { reach: is, expiresAt: kept });
        await store.append(id, [{ id: first }], origin());

        const { reach, expiresAt } = await requireNote(store, first);
        const widest = (["tenant", "actor", "session"] as const satisfies readonly NoteVisibility[]).find(
          (each) => each === had || each === is,
        );
        const last = until === undefined || kept === undefined ? undefined : [until, kept].sort()[1];
        assert.deepEqual([reach, expiresAt], [widest, last], `${had} ${until} into ${is} ${kept}`);
      }
    }
  },
  "removes with a collection the notes that were made for it and that no other holds": async ({ store }) => {
    const alone = await store.addNotes(origin(), notes("alone"), transient);
    const { id } = await createFilledCollection(store, ["a", "b", "c", "d"]);
    await store.append(id, [{ id: alone }], origin());
    await store.removeItems(id, [2], LATER);
    const other = await createFilledCollection(store, ["x"]);
    await store.append(other.id, [{ id: 3 }], origin());
    await store.save("note", 4, { reach: "session", at: LATER });

    assert.deepEqual(await store.remove("collection", id), { notes: 2, collections: 1 });
    assert.equal(await store.collection(id), undefined);
    assert.deepEqual(await store.items(id, { from: 0, limit: 9 }), []);
    const left = async () => (await store.list({ kind: "note", parts: true, limit: 9 })).map((each) => each.id);
    assert.deepEqual(await left(), [6, 4, 3, 1]);
    assert.deepEqual(await readContents(store, other.id), ["x", "b"]);
    assert.deepEqual(await store.remove("collection", id), { notes: 0, collections: 0 });

    // No collection holds these notes any more, so they must be removed.
    assert.deepEqual(await store.remove("collection", other.id), { notes: 2, collections: 1 });
    assert.deepEqual(await left(), [4, 1]);
  },
  "keeps notes that other collections hold in overlapping runs": async ({ store }) => {
    const made = await createFilledCollection(store, [1, 2, 3, 4, 5, 6, 7]);
    for (const held of [[2, 3, 4, 5, 6], [3], [4, 3]]) {
      const id = await store.addCollection(origin(), {}, transient);
      await store.append(
        id,
        held.map((each) => ({ id: each })),
        origin(),
      );
    }

    assert.deepEqual(await store.remove("collection", made.id), { notes: 2, collections: 1 });

    assert.deepEqual(await readContents(store, 2), [2, 3, 4, 5, 6]);
  },
  "removes saved notes that only an expired collection held": async ({ store, clock }) => {
    const kept = await createFilledCollection(store, ["a", "b"], { standing: { reach: "session" } });
    const brief = await store.addCollection(origin(), {}, transient);
    await store.append(brief, [{ id: 1 }], origin());
    await store.remove("collection", kept.id);
    assert.deepEqual(await readContents(store, brief), ["a"]);

    clock.at = AFTER;

    assert.deepEqual(await store.expire(AFTER), { notes: 1, collections: 1 });
    assert.equal(await store.count({ kind: "note", parts: true }), 0);
  },
});
