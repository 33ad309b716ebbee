import type { InfospaceStore } from "../infospace/infospace-store.ts";
import {
  findNoteHolders,
  type InfospaceChange,
  joinIds,
  pruneReferences,
  type RemovedReferences,
  RUN_LIMIT,
  runInfospaceChange,
  touchOwners,
} from "./infospace-changes.ts";
import { collectionNotExpired, noteNotExpired } from "./infospace-rows.ts";
import { releaseCollection, releaseNotes, releaseRows } from "./infospace-usage.ts";
import { type Sql, type SqlQuery, type SqlRow, splitIntoBatches, sql } from "./sql.ts";

type RemovalMethods = Pick<InfospaceStore, "remove" | "expire">;

/** How notes and collections go. */
export function createRemovalMethods(db: Sql, now: () => Date): RemovalMethods {
  return {
    async remove(kind, id) {
      const step = <T>(work: (change: InfospaceChange, left: RemovedReferences) => Promise<T>): Promise<T> =>
        runInfospaceChange(db, now, async (change) => {
          const left: RemovedReferences = { origins: new Set(), owners: new Set() };
          const done = await work(change, left);
          await pruneReferences(change, left);
          return done;
        });
      if (kind === "note") return step((change, left) => removeNote(change, id, left));
      const first = await step((change, left) => beginRemoval(change, id, left));
      if (first !== "large") return first;
      // One transaction for all of it would hold the process while it is written. Nobody sees the collection any more, and
      // what a crash leaves of it is expired.
      let notes = 0;
      for (let removed: number | undefined = 0; removed !== undefined; notes += removed ?? 0) {
        removed = await step((change, left) => thinCollection(change, id, left));
      }
      return {
        notes: notes + (await step((change, left) => dropCollection(change, id, left, IS_PART))),
        collections: 1,
      };
    },
    expire: (at) => runInfospaceChange(db, now, (change) => expire(change, at)),
  };
}

type RemovalResult = Awaited<ReturnType<InfospaceStore["remove"]>>;

async function removeNote(change: InfospaceChange, id: number, left: RemovedReferences): Promise<RemovalResult> {
  const { tx, now } = change;
  const [note] = await tx.all(sql`select n.bytes from notes n where n.id = ${id} and ${noteNotExpired(now)}`);
  if (note === undefined) return { notes: 0, collections: 0 };
  // Its places stay empty: whoever reads page by page must find the others where they were.
  for (const { collection, owner, places } of await findNoteHolders(change, id)) {
    await tx.all(sql`
      update collections set count = count - ${places}, bytes = bytes - ${places * Number(note.bytes)},
        changed_at = ${now} where id = ${collection}`);
    await touchOwners(change, joinIds([owner]));
  }
  return { notes: await deleteNotes(change, [id], left), collections: 0 };
}

const IS_PART = sql`n.part_of is not null`;

/** Removes a collection, or makes a large one expire now. */
async function beginRemoval(
  change: InfospaceChange,
  id: number,
  left: RemovedReferences,
): Promise<RemovalResult | "large"> {
  const { tx, now } = change;
  const [row] = await tx.all(sql`
    select coalesce((select sum(m.run) from members m where m.collection = c.id), 0) as held
    from collections c where c.id = ${id} and ${collectionNotExpired(now)}`);
  if (row === undefined) return { notes: 0, collections: 0 };
  if (Number(row.held) <= THINNED) {
    return { notes: await dropCollection(change, id, left, IS_PART), collections: 1 };
  }
  const hidden = await tx.all(sql`update collections set expires_at = ${now} where id = ${id} returning owner`);
  await touchOwners(change, joinIds(hidden.map(({ owner }) => Number(owner))));
  return "large";
}

/** Notes that one transaction removes of a large collection. */
const THINNED = 2_000;

/** Removes the first notes of a collection that is hidden. Undefined: so few are left that they go with it. */
async function thinCollection(
  change: InfospaceChange,
  id: number,
  left: RemovedReferences,
): Promise<number | undefined> {
  const { tx } = change;
  const runs: SqlRow[] = [];
  let held = 0;
  for (const row of await tx.all(sql`
    select note, run from members where collection = ${id} order by note limit ${THINNED}`)) {
    if (held < THINNED) runs.push(row);
    held += Number(row.run);
  }
  if (held < THINNED) return undefined;
  let rows = 0;
  for (const notes of splitIntoBatches(runs.map(({ note }) => Number(note)))) {
    const gone = await tx.all(
      sql`delete from members where collection = ${id} and note in (${joinIds(notes)}) returning note`,
    );
    rows += gone.length;
  }
  await releaseRows(change, id, rows);
  return dropNotes(change, runs, left, IS_PART);
}

async function expire(change: InfospaceChange, at: string): Promise<RemovalResult> {
  const { tx } = change;
  const left: RemovedReferences = { origins: new Set(), owners: new Set() };
  // Owner by owner, as the index has them.
  const late = sql`owner in (select id from owners) and expires_at <= ${at}`;
  const notes = await tx.all(sql`select origin, owner, count(*) as n from notes where ${late} group by origin, owner`);
  for (const { origin, owner } of notes) recordRemoval(left, origin, owner);
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
  await pruneReferences(change, left);
  return { notes: notes.reduce((sum, { n }) => sum + Number(n), orphans), collections: collections.length };
}

/**
 * Removes a collection, and what it held in any version and nothing else holds, where that was made for a collection and
 * is as `which` says. Answers how many notes.
 */
export async function dropCollection(
  change: InfospaceChange,
  id: number,
  left: RemovedReferences,
  which: SqlQuery,
): Promise<number> {
  const { tx } = change;
  const runs = await tx.all(sql`select note, run from members where collection = ${id} order by note`);
  await releaseCollection(change, id);
  await tx.all(sql`delete from members where collection = ${id}`);
  const gone = await tx.all(sql`delete from collections where id = ${id} returning origin, owner`);
  for (const { origin, owner } of gone) recordRemoval(left, origin, owner);
  return dropNotes(change, runs, left, which);
}

async function dropNotes(
  change: InfospaceChange,
  runs: readonly SqlRow[],
  left: RemovedReferences,
  which: SqlQuery,
): Promise<number> {
  const { tx } = change;
  let removed = 0;
  // A few at a time: a statement cannot be interrupted, and each note may be long.
  for (const held of splitIntoBatches(expandRuns(runs))) {
    const rows = await tx.all(
      sql`select n.id from notes n where n.id in (${joinIds(held)}) and ${which} order by n.id`,
    );
    const ids = rows.map((row) => Number(row.id));
    removed += await deleteNotes(change, await findUnheldNotes(change, ids), left);
  }
  return removed;
}

/** The ids in runs, which may overlap, each once and in ascending order. */
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

/** Those of the ids, in ascending order, that no collection holds or held in any version. */
async function findUnheldNotes({ tx, now }: InfospaceChange, ids: readonly number[]): Promise<readonly number[]> {
  const [first = 0, last = 0] = [ids[0], ids.at(-1)];
  const runs = await tx.all(sql`
    select m.note, m.run from members m join collections c on c.id = m.collection
    where m.note > ${first - RUN_LIMIT} and m.note <= ${last} and m.note + m.run > ${first} and ${collectionNotExpired(now)}
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

async function deleteNotes(change: InfospaceChange, ids: readonly number[], left: RemovedReferences): Promise<number> {
  if (ids.length === 0) return 0;
  const { tx } = change;
  await releaseNotes(change, sql`n.id in (${joinIds(ids)})`);
  await tx.all(sql`delete from note_history where note in (${joinIds(ids)})`);
  await tx.all(sql`delete from note_files where note in (${joinIds(ids)})`);
  const gone = await tx.all(sql`delete from notes where id in (${joinIds(ids)}) returning origin, owner`);
  for (const { origin, owner } of gone) recordRemoval(left, origin, owner);
  return gone.length;
}

function recordRemoval({ origins, owners }: RemovedReferences, origin: unknown, owner: unknown): void {
  origins.add(Number(origin));
  owners.add(Number(owner));
}
