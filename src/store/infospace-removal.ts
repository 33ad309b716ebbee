import type { InfospaceStore } from "../infospace/infospace-store.ts";
import type { ResourceKind } from "../infospace/note.ts";
import { type Change, pruneReferences, RemovedReferences, touchOwners } from "./infospace-changes.ts";
import { collectionNotExpired, noteNotExpired } from "./infospace-columns.ts";
import { findNoteHolders, RUN_LIMIT } from "./infospace-runs.ts";
import { releaseCollection, releaseNotes, releaseRows } from "./infospace-usage.ts";
import { bindList, type SqlQuery, type SqlRow, splitIntoBatches, sql } from "./sql.ts";

type RunChange = <T>(work: (change: Change) => Promise<T>) => Promise<T>;
type RemovalResult = Awaited<ReturnType<InfospaceStore["remove"]>>;

const IS_PART = sql`n.part_of is not null`;
const REMOVAL_BATCH = 2_000;

export async function removeResource(runChange: RunChange, kind: ResourceKind, id: number): Promise<RemovalResult> {
  const step = <T>(work: (change: Change, id: number, removed: RemovedReferences) => Promise<T>): Promise<T> =>
    runChange(async (change) => {
      const removed = new RemovedReferences();
      const result = await work(change, id, removed);
      await pruneReferences(change, removed.owners, removed.origins);
      return result;
    });
  if (kind === "note") return step(removeNote);
  const first = await step(beginRemoval);
  if (first !== "large") return first;
  // One transaction for all notes would block the process. The collection is hidden already, and expired: the next
  // expiry removes the rest after a crash.
  let notes = 0;
  for (let removed: number | undefined = 0; removed !== undefined; notes += removed ?? 0) {
    removed = await step(thinCollection);
  }
  notes += await step((change, _id, removed) => dropCollection(change, id, removed, IS_PART));
  return { notes, collections: 1 };
}

async function removeNote(change: Change, id: number, removed: RemovedReferences): Promise<RemovalResult> {
  const { tx, now } = change;
  const [note] = await tx.all(sql`select n.bytes from notes n where n.id = ${id} and ${noteNotExpired(now)}`);
  if (note === undefined) return { notes: 0, collections: 0 };
  // Its positions stay empty, so that a reader of pages finds the other items in their places.
  for (const { collection, owner, places } of await findNoteHolders(change, id)) {
    await tx.all(sql`
      update collections set count = count - ${places}, bytes = bytes - ${places * Number(note.bytes)},
        changed_at = ${now} where id = ${collection}`);
    await touchOwners(change, bindList([owner]));
  }
  return { notes: await deleteNotes(change, [id], removed), collections: 0 };
}

/** Removes a collection, or lets a large one expire now. */
async function beginRemoval(change: Change, id: number, removed: RemovedReferences): Promise<RemovalResult | "large"> {
  const { tx, now } = change;
  const [row] = await tx.all(sql`
    select coalesce((select sum(m.run) from members m where m.collection = c.id), 0) as held
    from collections c where c.id = ${id} and ${collectionNotExpired(now)}`);
  if (row === undefined) return { notes: 0, collections: 0 };
  if (Number(row.held) <= REMOVAL_BATCH) {
    return { notes: await dropCollection(change, id, removed, IS_PART), collections: 1 };
  }
  const hidden = await tx.all(sql`update collections set expires_at = ${now} where id = ${id} returning owner`);
  await touchOwners(change, bindList(hidden.map(({ owner }) => Number(owner))));
  return "large";
}

/** Removes the first notes of a hidden collection. Undefined: the rest can be removed with the collection. */
async function thinCollection(change: Change, id: number, removed: RemovedReferences): Promise<number | undefined> {
  const { tx } = change;
  const runs: SqlRow[] = [];
  let held = 0;
  for (const row of await tx.all(sql`
    select note, run from members where collection = ${id} order by note limit ${REMOVAL_BATCH}`)) {
    if (held < REMOVAL_BATCH) runs.push(row);
    held += Number(row.run);
  }
  if (held < REMOVAL_BATCH) return undefined;
  let rows = 0;
  for (const notes of splitIntoBatches(runs.map(({ note }) => Number(note)))) {
    const inBatch = sql`collection = ${id} and note in (${bindList(notes)})`;
    rows += (await tx.all(sql`delete from members where ${inBatch} returning note`)).length;
  }
  await releaseRows(change, id, rows);
  return dropNotes(change, runs, removed, IS_PART);
}

export async function removeExpired(change: Change, at: string): Promise<RemovalResult> {
  const { tx } = change;
  const removed = new RemovedReferences();
  const late = sql`owner in (select id from owners) and expires_at <= ${at}`;
  const notes = await tx.all(sql`select origin, owner, count(*) as n from notes where ${late} group by origin, owner`);
  for (const row of notes) removed.add(row);
  await releaseNotes(change, sql`n.owner in (select id from owners) and n.expires_at <= ${at}`);
  await tx.all(sql`delete from note_history where note in (select id from notes where ${late})`);
  await tx.all(sql`delete from note_files where note in (select id from notes where ${late})`);
  await tx.all(sql`delete from notes where ${late}`);
  const collections = await tx.all(sql`select id from collections where ${late}`);
  // A note saved with another collection that is gone, and held only here, would stay forever.
  let orphans = 0;
  for (const { id } of collections) {
    orphans += await dropCollection(change, Number(id), removed, sql`n.part_of is not null and n.expires_at is null`);
  }
  await pruneReferences(change, removed.owners, removed.origins);
  return { notes: notes.reduce((sum, { n }) => sum + Number(n), orphans), collections: collections.length };
}

/** Removes a collection and its notes that match `which` and no other collection holds. Returns how many notes. */
export async function dropCollection(change: Change, id: number, removed: RemovedReferences, which: SqlQuery) {
  const { tx } = change;
  const runs = await tx.all(sql`select note, run from members where collection = ${id} order by note`);
  await releaseCollection(change, id);
  await tx.all(sql`delete from members where collection = ${id}`);
  const gone = await tx.all(sql`delete from collections where id = ${id} returning origin, owner`);
  for (const row of gone) removed.add(row);
  return dropNotes(change, runs, removed, which);
}

async function dropNotes(change: Change, runs: readonly SqlRow[], removed: RemovedReferences, which: SqlQuery) {
  const { tx } = change;
  let count = 0;
  // In batches: a statement cannot be interrupted, and each note may be long.
  for (const held of splitIntoBatches(expandRuns(runs))) {
    const rows = await tx.all(sql`
      select n.id from notes n where n.id in (${bindList(held)}) and ${which} order by n.id`);
    const ids = rows.map((row) => Number(row.id));
    count += await deleteNotes(change, await findUnheldNotes(change, ids), removed);
  }
  return count;
}

/** The ids in runs, which may overlap: each once, ascending. */
function expandRuns(runs: readonly SqlRow[]): readonly number[] {
  const ids: number[] = [];
  let next = 0;
  for (const { note, run } of runs) {
    const end = Number(note) + Number(run);
    for (let id = Math.max(next, Number(note)); id < end; id++) ids.push(id);
    next = Math.max(next, end);
  }
  return ids;
}

/** Which of the ids, ascending, no collection holds in any version. */
async function findUnheldNotes({ tx, now }: Change, ids: readonly number[]): Promise<readonly number[]> {
  const [first = 0, last = 0] = [ids[0], ids.at(-1)];
  const runs = await tx.all(sql`
    select m.note, m.run from members m join collections c on c.id = m.collection
    where m.note > ${first - RUN_LIMIT} and m.note <= ${last} and m.note + m.run > ${first} and ${collectionNotExpired(now)}
    order by m.note`);
  // Runs may overlap: `end` is the furthest end of the runs that start at or before an id.
  let [at, end] = [0, 0];
  return ids.filter((id) => {
    for (let run = runs[at]; run !== undefined && Number(run.note) <= id; run = runs[++at]) {
      end = Math.max(end, Number(run.note) + Number(run.run));
    }
    return id >= end;
  });
}

async function deleteNotes(change: Change, ids: readonly number[], removed: RemovedReferences): Promise<number> {
  if (ids.length === 0) return 0;
  const { tx } = change;
  await releaseNotes(change, sql`n.id in (${bindList(ids)})`);
  await tx.all(sql`delete from note_history where note in (${bindList(ids)})`);
  await tx.all(sql`delete from note_files where note in (${bindList(ids)})`);
  const gone = await tx.all(sql`delete from notes where id in (${bindList(ids)}) returning origin, owner`);
  for (const row of gone) removed.add(row);
  return gone.length;
}
