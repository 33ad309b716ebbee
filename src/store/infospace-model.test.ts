import fc from "fast-check";
import { expect, test } from "vitest";
import { me, note, openInfospace, origin } from "../../test/cases/infospace-fixtures.ts";
import { infospaceModel } from "../../test/cases/infospace-model.ts";
import type { NewCollectionItem, OwnerScope, Retention } from "../infospace/infospace-store.ts";
import { mergeSources, type NoteOrigin, noteVisibilities } from "../infospace/note.ts";
import { openSqlite } from "./drivers/sqlite.ts";

type Modelled = ReturnType<typeof infospaceModel>;

/** One thing done to a store. What it answers is compared; so is everything there is afterwards. */
interface Step {
  readonly name: string;
  run(store: Modelled, at: string): Promise<unknown>;
}

const MOST = 5; // ids that are tried: some are there, some never were
const id = fc.integer({ min: 1, max: MOST });
const minutes = fc.integer({ min: 0, max: 90 });
const reach = fc.constantFrom(...noteVisibilities);
const name = fc.constantFrom(undefined, "one", "two");
const content = fc.oneof(fc.string({ maxLength: 5 }), fc.record({ n: fc.nat(9) }), fc.constant(null));
const properties = fc.constantFrom(undefined, { a: 1 }, { b: 2 });
const made = fc.record({ content, name, properties }).map((one) => note(one.content, one));

const whose: readonly OwnerScope[] = [
  me,
  { ...me, session: "t" },
  { ...me, actor: "side" },
  { ...me, user: "ada" },
  { actor: "main", session: "s" },
];
const sources = fc.subarray(["tool__a", "tool__b", "tool__c"]);
const from: fc.Arbitrary<NoteOrigin> = fc
  .record({
    origin: fc.constantFrom(
      ...whose.map(
        ({ actor, session, user, tenant }, index) =>
          Object.fromEntries(
            Object.entries(origin({ callId: `c${index}`, actor, session, ...{ user, tenant } } as NoteOrigin)).filter(
              ([, value]) => value !== undefined,
            ),
          ) as unknown as NoteOrigin,
      ),
    ),
    sources,
  })
  .map((one) => mergeSources(one.origin, one.sources));
const until = fc.option(minutes, { nil: undefined });
const standing = fc
  .record({ reach, until })
  .map(
    ({ reach: how, until: end }): Retention =>
      end === undefined ? { reach: how } : { reach: how, expiresAt: time(end) },
  );
const entries = fc.array(
  fc.oneof(
    id.map((given): NewCollectionItem => ({ id: given })),
    made,
  ),
  { maxLength: 4 },
);

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ from, notes: fc.array(made, { maxLength: 3 }), standing }).map((one) => ({
    name: `addNotes ${JSON.stringify(one)}`,
    run: (store: Modelled) => store.addNotes(one.from, one.notes, one.standing),
  })),
  fc.record({ from, name, properties, standing }).map((one) => ({
    name: `addCollection ${JSON.stringify(one)}`,
    run: (store: Modelled) => store.addCollection(one.from, one, one.standing),
  })),
  ...[0, 1, 2].map(() =>
    fc.record({ id, entries, from }).map((one) => ({
      name: `append ${JSON.stringify(one)}`,
      run: (store: Modelled) => store.append(one.id, one.entries, one.from),
    })),
  ),
  fc.record({ id, version: fc.integer({ min: 1, max: 2 }), made, sources }).map((one) => ({
    name: `replaceNote ${JSON.stringify(one)}`,
    run: (store: Modelled, at: string) => store.replaceNote(one.id, one.version, one.made, at, one.sources),
  })),
  fc.record({ id, by: id }).map((one) => ({
    name: `absorb ${JSON.stringify(one)}`,
    run: (store: Modelled, at: string) => store.absorb(one.id, one.by, at),
  })),
  fc.record({ id, by: id }).map((one) => ({
    name: `replaceCollection ${JSON.stringify(one)}`,
    run: (store: Modelled, at: string) => store.replaceCollection(one.id, one.by, at),
  })),
  fc.record({ id, notes: fc.array(id, { maxLength: 3 }) }).map((one) => ({
    name: `removeItems ${JSON.stringify(one)}`,
    run: (store: Modelled, at: string) => store.removeItems(one.id, one.notes, at),
  })),
  fc.record({ kind: fc.constantFrom("note", "collection"), id, reach, name }).map((one) => ({
    name: `save ${JSON.stringify(one)}`,
    run: (store: Modelled, at: string) => store.save(one.kind, one.id, { ...one, at }),
  })),
  fc
    .array(fc.record({ kind: fc.constantFrom("note", "collection"), id, reach, name }), { maxLength: 4 })
    .map((all) => ({
      name: `saveAll ${JSON.stringify(all)}`,
      run: (store: Modelled, at: string) => store.saveAll(all.map((one) => ({ ...one, at }))),
    })),
  fc.record({ kind: fc.constantFrom("note", "collection"), id }).map((one) => ({
    name: `remove ${JSON.stringify(one)}`,
    run: (store: Modelled) => store.remove(one.kind, one.id),
  })),
  id.map((each) => ({ name: `complete ${each}`, run: (store: Modelled) => store.complete(each) })),
  fc.constant({ name: "expire", run: (store: Modelled, at: string) => store.expire(at) }),
);

const course = fc.array(fc.record({ step, wait: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 20 })) }), {
  minLength: 8,
  maxLength: 25,
});

test("behaves as the reference model for any sequence of calls", async () => {
  await fc.assert(
    fc.asyncProperty(course, async (steps) => {
      const db = await openSqlite(":memory:");
      try {
        const { store: unlimited, clock } = await openInfospace(db);
        const store = unlimited.limitedTo(quota);
        const model = infospaceModel(() => clock.at, quota);
        for (const each of [store, model]) await begin(each);
        let minute = 0;
        let seen = await Promise.all(
          whose.map(async (who) => ({ mark: await store.mark(who), view: await viewOf(model, who) })),
        );
        for (const { step: next, wait } of steps) {
          minute += wait;
          clock.at = time(minute);
          const expected = await answer(next.run(model, clock.at));

          expect(await answer(next.run(store, clock.at)), next.name).toEqual(expected);
          expect(await look(store), next.name).toEqual(await look(model));

          const now = await Promise.all(
            whose.map(async (who) => ({ mark: await store.mark(who), view: await viewOf(model, who) })),
          );
          for (const [index, { mark, view }] of now.entries()) {
            if (mark === seen[index]?.mark) expect(view, `the mark after ${next.name}`).toEqual(seen[index]?.view);
          }
          seen = now;
        }
      } finally {
        await db.close();
      }
    }),
    { numRuns: 50 },
  );
}, 120_000);

/** Little enough that some courses pass it. */
const quota = {
  session: { notes: 9, bytes: 9_000, rows: 10 },
  user: { notes: 12, bytes: 3_200, rows: 99 },
  tenant: { notes: 99, bytes: 4_000, rows: 12 },
};

/** Three collections of one note each, so that there is something to do things to. */
async function begin(store: Modelled): Promise<void> {
  for (const minute of [undefined, 30, 60]) {
    const end = minute === undefined ? {} : { expiresAt: time(minute) };
    const collection = await store.addCollection(origin(), {}, { reach: "session", ...end });
    await store.append(collection, [note(collection)], origin());
  }
}

/** Everything that can be asked. */
async function look(store: Modelled): Promise<unknown> {
  const ids = Array.from({ length: 2 * MOST }, (_, index) => index + 1);
  const answers: unknown[] = [];
  for (const each of ids) {
    answers.push(await store.note(each), await store.history(each), await store.noteVersion(each, 1));
    if (each > MOST) continue;
    answers.push(await store.collection(each), hashesOf(await store.contents({ collection: each })));
    for (const version of [undefined, 1, 2]) answers.push(await paged(store, each, version));
    for (const version of [0, 1, 2, 3]) {
      answers.push(await store.collectionVersion(each, version), await store.positions(each, version, ids));
    }
  }
  for (const who of whose) answers.push(await viewOf(store, who), await store.usage(who));
  answers.push((await store.usage()).toSorted((one, other) => (one.tenant ?? "").localeCompare(other.tenant ?? "")));
  answers.push((await store.notes(ids)).toSorted((one, other) => one.id - other.id));
  for (const filter of [
    {},
    { parts: true },
    { saved: true, parts: true },
    { name: "one" },
    { session: "t" },
    { tenant: "" },
  ]) {
    answers.push(
      await store.list({ kind: "note", limit: 5, ...filter }),
      await store.count({ kind: "note", ...filter }),
    );
    answers.push(await store.list({ kind: "note", limit: 5, before: 4, ...filter }));
    answers.push(await store.list({ kind: "collection", limit: 5, ...filter }));
  }
  return answers;
}

async function viewOf(store: Modelled, who: OwnerScope): Promise<unknown> {
  return {
    notes: await store.list({ kind: "note", whose: who, parts: true, limit: 99 }),
    collections: await store.list({ kind: "collection", whose: who, limit: 99 }),
    counts: [await store.count({ kind: "note", whose: who }), await store.count({ kind: "collection", whose: who })],
    contents: hashesOf(await store.contents(who)),
  };
}

/** Names and properties may be written otherwise here; when they change is held by a case of its own. */
function hashesOf(contents: ReadonlyMap<number, string>): readonly (readonly [number, string | undefined])[] {
  return [...contents].map(([id, state]) => [id, state.split("\n")[0]] as const).toSorted(([a], [b]) => a - b);
}

async function paged(store: Modelled, collection: number, version: number | undefined): Promise<unknown> {
  const all = [];
  for (let first = 0; ; first = (all.at(-1)?.position ?? 0) + 1) {
    const page = await store.items(collection, { from: first, limit: 2, version });
    if (page.length === 0) return all;
    all.push(...page);
  }
}

async function answer(work: Promise<unknown>): Promise<unknown> {
  return work.catch((thrown: { code?: string }) => ({ thrown: thrown.code }));
}

function time(minute: number): string {
  return new Date(Date.UTC(2026, 0, 2, 3, minute)).toISOString();
}
