import type { InfospaceStore } from "../infospace/infospace-store.ts";
import { type Change, changing, forget, type Left, listed, touch } from "./infospace-change.ts";
import { collectionIsThere, noteIsThere } from "./infospace-rows.ts";
import { holdersOf, RUN_LIMIT } from "./infospace-runs.ts";
import { releaseCollection, releaseNotes } from "./infospace-use.ts";
import { portions } from "./portions.ts";
import { type Query, type Row, type Sql, sql } from "./sql.ts";

type DropMethods = Pick<InfospaceStore, "remove" | "expire">;

/** How notes and collections go. */
export function dropMethods(db: Sql, now: () => Date): DropMethods {
  return {
    remove: (kind, id) =>
      changing(db, now, async (change) => {
        const left: Left = { origins: new Set(), owners: new Set() };
        const removed = kind === "note" ? await removeNote(change, id, left) : await removeCollection(change, id, left);
        await forget(change, left);
        return removed;
      }),
    expire: (at) => changing(db, now, (change) => expire(change, at)),
  };
}

type Removed = Awaited<ReturnType<InfospaceStore["remove"]>>;

async function removeNote(change: Change, id: number, left: Left): Promise<Removed> {
  const { tx, now } = change;
  const [note] = await tx.all(sql`select n.bytes from notes n where n.id = ${id} and ${noteIsThere(now)}`);
  if (note === undefined) return { notes: 0, collections: 0 };
  // Its places stay empty: whoever reads page by page must find the others where they were.
  for (const { collection, owner, places } of await holdersOf(change, id)) {
    await tx.all(sql`
      update collections set count = count - ${places}, bytes = bytes - ${places * Number(note.bytes)},
        changed_at = ${now} where id = ${collection}`);
    await touch(change, listed([owner]));
  }
  return { notes: await deleteNotes(change, [id], left), collections: 0 };
}

async function removeCollection(change: Change, id: number, left: Left): Promise<Removed> {
  const [row] = await change.tx.all(sql`
    select c.id from collections c where c.id = ${id} and ${collectionIsThere(change.now)}`);
  if (row === undefined) return { notes: 0, collections: 0 };
  return { notes: await dropCollection(change, id, left, sql`n.part_of is not null`), collections: 1 };
}

async function expire(change: Change, at: string): Promise<Removed> {
  const { tx } = change;
  const left: Left = { origins: new Set(), owners: new Set() };
  // Owner by owner, as the index has them.
  const late = sql`owner in (select id from owners) and expires_at <= ${at}`;
  const notes = await tx.all(sql`select origin, owner, count(*) as n from notes where ${late} group by origin, owner`);
  for (const { origin, owner } of notes) noted(left, origin, owner);
  await releaseNotes(change, sql`n.owner in (select id from owners) and n.expires_at <= ${at}`);
  await tx.all(sql`delete from note_history where note in (select id from notes where ${late})`);
  await tx.all(sql`delete from note_files where note in (select id from notes where ${late})`);
  await tx.all(sql`delete from notes where ${late}`);
  const collections = await tx.all(sql`select id from collections where ${late}`);
  // What was saved with another collection that is gone, and was here only, would never go.
  let orphans = 0;
  for (const { id } of collections) {
    orphans += await dropCollection(change, Number(id), left, sql`n.part_of is not null and n.expires_at is null`);
  }
  await forget(change, left);
  return { notes: notes.reduce((sum, { n }) => sum + Number(n), orphans), collections: collections.length };
}

/**
 * Removes a collection, and what it held in any version and nothing else holds, where that was made for a collection and
 * is as `which` says. Answers how many notes.
 */
export async function dropCollection(change: Change, id: number, left: Left, which: Query): Promise<number> {
  const { tx } = change;
  const runs = await tx.all(sql`select note, run from members where collection = ${id} order by note`);
  await releaseCollection(change, id);
  await tx.all(sql`delete from members where collection = ${id}`);
  const gone = await tx.all(sql`delete from collections where id = ${id} returning origin, owner`);
  for (const { origin, owner } of gone) noted(left, origin, owner);
  let removed = 0;
  // A few at a time: a statement cannot be interrupted, and each note may be long.
  for (const held of portions(notesIn(runs))) {
    const rows = await tx.all(sql`select n.id from notes n where n.id in (${listed(held)}) and ${which} order by n.id`);
    const ids = rows.map((row) => Number(row.id));
    removed += await deleteNotes(change, await nowhere(change, ids), left);
  }
  return removed;
}

/** The ids in runs, which may overlap, each once and in ascending order. */
function notesIn(runs: readonly Row[]): readonly number[] {
  const ids: number[] = [];
  let next = 0;
  for (const { note, run } of runs) {
    const end = Number(note) + Number(run);
    for (let id = Math.max(next, Number(note)); id < end; id++) ids.push(id);
    next = Math.max(next, end);
  }
  return ids;
}

/** Those of the ids, in ascending order, that no collection holds or held in any version. */
async function nowhere({ tx, now }: Change, ids: readonly number[]): Promise<readonly number[]> {
  const [first = 0, last = 0] = [ids[0], ids.at(-1)];
  const runs = await tx.all(sql`
    select m.note, m.run from members m join collections c on c.id = m.collection
    where m.note > ${first - RUN_LIMIT} and m.note <= ${last} and m.note + m.run > ${first} and ${collectionIsThere(now)}
    order by m.note`);
  // Runs may overlap: what counts is how far those that begin at or before an id reach.
  let [at, end] = [0, 0];
  return ids.filter((id) => {
    for (let run = runs[at]; run !== undefined && Number(run.note) <= id; run = runs[++at]) {
      end = Math.max(end, Number(run.note) + Number(run.run));
    }
    return id >= end;
  });
}

async function deleteNotes(change: Change, ids: readonly number[], left: Left): Promise<number> {
  if (ids.length === 0) return 0;
  const { tx } = change;
  await releaseNotes(change, sql`n.id in (${listed(ids)})`);
  await tx.all(sql`delete from note_history where note in (${listed(ids)})`);
  await tx.all(sql`delete from note_files where note in (${listed(ids)})`);
  const gone = await tx.all(sql`delete from notes where id in (${listed(ids)}) returning origin, owner`);
  for (const { origin, owner } of gone) noted(left, origin, owner);
  return gone.length;
}

function noted({ origins, owners }: Left, origin: unknown, owner: unknown): void {
  origins.add(Number(origin));
  owners.add(Number(owner));
}
