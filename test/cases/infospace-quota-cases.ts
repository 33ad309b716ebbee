import assert from "node:assert/strict";
import { NOTE_OVERHEAD, type Quota } from "../../src/infospace/quota.ts";
import {
  createFilledCollection,
  createNumberedNotes,
  LATER,
  me,
  NEXT_DAY,
  note,
  notes,
  openInfospace,
  origin,
  readContents,
  requireCollection,
  requireNote,
  transient,
} from "./infospace-fixtures.ts";
import { defineCases } from "./store-cases.ts";

const plenty = { notes: 1_000, bytes: 1_000_000, rows: 1_000 };

function quota(limits: Partial<Quota>): Quota {
  return { session: plenty, user: plenty, tenant: plenty, ...limits };
}

const exceeded = (scope: string, of: string) => (thrown: { readonly code: string; readonly details: object }) => {
  assert.equal(thrown.code, "quota_exceeded");
  assert.deepEqual({ ...thrown.details, limit: 0, used: 0, wanted: 0 }, { scope, of, limit: 0, used: 0, wanted: 0 });
  return true;
};

export const infospaceQuotaCases = defineCases(openInfospace, {
  "charges usage to the owner, and releases it": async ({ store, clock }) => {
    const id = await store.addNotes(origin(), [note("ab", { properties: { ä: "🦑" } })], transient);
    await store.replaceNote(id, 1, note("abcd"), LATER);
    const bytes = NOTE_OVERHEAD + 4 + 6 + 9;
    assert.deepEqual(await store.usage(me), [
      { scope: "session", tenant: "acme", user: "eve", session: "s", notes: 1, bytes, rows: 0 },
      { scope: "user", tenant: "acme", user: "eve", notes: 1, bytes, rows: 0 },
      { scope: "tenant", tenant: "acme", notes: 1, bytes, rows: 0 },
    ]);

    const other = origin({ user: "bob", session: "t" });
    const holding = await store.addCollection(other, {}, { reach: "session", expiresAt: NEXT_DAY });
    await store.append(holding, [{ id }, { id }], other);
    assert.deepEqual((await store.usage(me))[0]?.bytes, bytes);
    assert.deepEqual(await store.usage({ ...me, user: "bob", session: "t" }), [
      { scope: "session", tenant: "acme", user: "bob", session: "t", notes: 1, bytes: NOTE_OVERHEAD, rows: 2 },
      { scope: "user", tenant: "acme", user: "bob", notes: 1, bytes: NOTE_OVERHEAD, rows: 2 },
      { scope: "tenant", tenant: "acme", notes: 2, bytes: bytes + NOTE_OVERHEAD, rows: 2 },
    ]);

    await store.remove("note", id);
    await store.remove("collection", holding);
    await createFilledCollection(store, [1, 2]);
    clock.at = NEXT_DAY;
    await store.expire(NEXT_DAY);
    assert.deepEqual(await store.usage(), []);
  },
  "writes nothing that exceeds a limit": async ({ store }) => {
    const { id } = await createFilledCollection(store, [1, 2, 3]);
    const before = await store.usage(me);
    const bytes = before[0]?.bytes ?? 0;
    const [few, little] = [
      store.limitedTo(quota({ session: { ...plenty, notes: 5, rows: 1 } })),
      store.limitedTo(quota({ tenant: { ...plenty, bytes: bytes + 2 * NOTE_OVERHEAD } })),
    ];

    await assert.rejects(few.addNotes(origin(), createNumberedNotes(2), transient), exceeded("session", "notes"));
    await assert.rejects(few.append(id, notes(4, 5), origin()), exceeded("session", "notes"));
    await assert.rejects(few.append(id, [{ id: 1 }], origin()), exceeded("session", "rows"));
    await assert.rejects(few.removeItems(id, [2], LATER), exceeded("session", "rows"));
    await assert.rejects(little.addNotes(origin(), createNumberedNotes(2), transient), exceeded("tenant", "bytes"));
    await assert.rejects(little.replaceNote(1, 1, note("x".repeat(999)), LATER), exceeded("tenant", "bytes"));
    await assert.rejects(
      little.addCollection(origin(), { properties: { x: "x".repeat(999) } }, transient),
      exceeded("tenant", "bytes"),
    );

    assert.deepEqual(await store.usage(me), before);
    assert.deepEqual(await readContents(store, id), [1, 2, 3]);
    assert.equal(await few.addNotes(origin(), createNumberedNotes(1), transient), 4);
  },
  "moves the usage of an absorbed collection": async ({ store }) => {
    const [one, other] = [await createFilledCollection(store, [1]), await createFilledCollection(store, [2, 3])];
    const from = origin({ user: "bob", session: "t", action: "tool__b" });
    const foreign = await createFilledCollection(store, [4], { from });

    await store.absorb(one.id, other.id, LATER);
    await store.absorb(one.id, foreign.id, LATER);

    assert.deepEqual(await readContents(store, one.id), [1, 2, 3, 4]);
    const { count, bytes, changedAt, origin: came } = await requireCollection(store, one.id);
    assert.deepEqual([count, bytes, changedAt, came.sources], [4, 4, LATER, ["tool__b"]]);
    assert.equal(await store.collection(other.id), undefined);
    assert.equal(await store.absorb(one.id, one.id, LATER), undefined);
    assert.equal(await store.absorb(one.id, other.id, LATER), undefined);
    assert.deepEqual(
      (await store.usage(me)).map(({ notes: made, rows }) => [made, rows]),
      [
        [4, 1],
        [4, 1],
        [5, 1],
      ],
    );
  },
  "tracks source actions through notes, versions and collections": async ({ store }) => {
    const made = await store.addNotes(
      origin({ action: "tool__a", sources: ["tool__b"] }),
      createNumberedNotes(1),
      transient,
    );
    const { id } = await createFilledCollection(store, [1], { from: origin({ action: "library" }) });
    assert.equal((await requireCollection(store, id)).origin.sources, undefined);

    await store.append(id, [{ id: made }], origin({ action: "tool__c" }));
    assert.deepEqual((await requireCollection(store, id)).origin.sources, ["tool__a", "tool__b", "tool__c"]);

    await store.replaceNote(made, 1, note(2), LATER, ["tool__d", "tool__a"]);
    assert.deepEqual((await requireNote(store, made)).origin.sources, ["tool__b", "tool__d"]);
    assert.deepEqual((await requireCollection(store, id)).origin.sources, ["tool__a", "tool__b", "tool__c", "tool__d"]);

    const next = await createFilledCollection(store, [2], { from: origin({ action: "tool__e" }) });
    await store.replaceCollection(id, next.id, LATER);
    assert.equal((await requireCollection(store, id)).origin.sources?.at(-1), "tool__e");

    await store.holdSources("call\0", ["tool__b", "tool__a"]);
    await store.holdSources("call\0", ["tool__b", "tool__c"]);
    assert.deepEqual(await store.heldSources("call\0"), ["tool__a", "tool__b", "tool__c"]);
    assert.deepEqual(await store.heldSources("another"), []);

    const seen: string[] = [];
    const allowed = await store.contents(me, {
      allows: ({ action, sources }) => {
        seen.push([action, ...(sources ?? [])].join(" "));
        return action !== "tool__a";
      },
    });
    assert.equal(allowed.has(made), false);
    assert.equal(allowed.size, 2);
    assert.deepEqual(seen.sort(), ["library", "tool__a tool__b tool__d", "tool__e"]);
  },
});
