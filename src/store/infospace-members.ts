import { QmError } from "../core/errors.ts";
import type { InfospaceStore, NewCollectionItem, NewNote } from "../infospace/infospace-store.ts";
import { formatHandle, listSources, mergeSources, type NoteOrigin } from "../infospace/note.ts";
import { type Change, extendExpiry, type Reader, touchCollection, widenReach } from "./infospace-changes.ts";
import { readCollection } from "./infospace-collections.ts";
import { collectionNotExpired, contentColumns, fileTable, noteNotExpired } from "./infospace-columns.ts";
import { insertNotes } from "./infospace-notes.ts";
import { readItemRow, readSources, unescapeColumn } from "./infospace-rows.ts";
import { appendNoteToRuns, type NoteRun, RUN_LIMIT, runHasNote } from "./infospace-runs.ts";
import { addSources } from "./infospace-sources.ts";
import { charge, toPayer } from "./infospace-usage.ts";
import { bindList, joinQueries, type SqlRow, splitIntoBatches, sql } from "./sql.ts";

type ItemQuery = Parameters<InfospaceStore["items"]>[1];

/** A position belongs to one note for good and stays empty without it, so a reader of pages misses nothing. */
export async function readCollectionItems({ tx, now }: Reader, id: number, { version, from, limit }: ItemQuery) {
  const first = Math.max(0, Math.trunc(from));
  const rows = await tx.all(sql`
    select m.position + (n.id - m.note) as position, n.id, n.format, n.bytes, n.hash, ${contentColumns}
    from collections c
    join members m on m.collection = c.id and m.version = ${version === undefined ? sql`c.version` : sql`${version}`}
    join notes n on n.id >= case when m.position < ${first} then m.note + (${first} - m.position) else m.note end
      and n.id < m.note + m.run
    ${fileTable}
    where c.id = ${id} and m.position > ${first - RUN_LIMIT} and ${collectionNotExpired(now)} and ${noteNotExpired(now)}
    order by m.position, n.id limit ${Math.max(0, Math.trunc(limit))}`);
  return rows.map(readItemRow);
}

export async function findPositions({ tx, now }: Reader, id: number, version: number, notes: readonly number[]) {
  const first = new Map<number, number>();
  for (const batch of splitIntoBatches([...new Set(notes)])) {
    const rows = await tx.all(sql`
      select n.id from notes n where n.id in (${bindList(batch)}) and ${noteNotExpired(now)}`);
    const wanted = rows.map((row) => Number(row.id));
    if (wanted.length === 0) continue;
    const [least, most] = [Math.min(...wanted), Math.max(...wanted)];
    const runs = await tx.all(sql`
      select m.position, m.note, m.run from collections c join members m on m.collection = c.id
      where c.id = ${id} and m.version = ${version} and ${collectionNotExpired(now)}
        and (m.note in (${bindList(wanted)}) or m.run > 1 and m.note > ${least - RUN_LIMIT} and m.note <= ${most})
      order by m.position`);
    for (const { position, note, run } of runs.map(toNoteRun)) {
      for (const each of wanted) {
        if (each >= note && each < note + run && !first.has(each)) first.set(each, position + (each - note));
      }
    }
  }
  return first;
}

export async function readCollectionVersion({ tx, now }: Reader, id: number, version: number) {
  if (!Number.isSafeInteger(version) || version < 1) return undefined;
  const [row] = await tx.all(sql`
    select count(n.id) as count, coalesce(sum(n.bytes), 0) as bytes
    from collections c
    left join members m on m.collection = c.id and m.version = ${version}
    left join notes n on ${runHasNote} and ${noteNotExpired(now)}
    where c.id = ${id} and c.version >= ${version} and ${collectionNotExpired(now)}
    group by c.id`);
  return row === undefined ? undefined : { count: Number(row.count), bytes: Number(row.bytes) };
}

export async function append(change: Change, id: number, entries: readonly NewCollectionItem[], origin: NoteOrigin) {
  const { tx } = change;
  const collection = await readCollection(change, id);
  if (collection === undefined || entries.length === 0) return collection;
  const stored = [...new Set(entries.filter(isStoredNote).map((entry) => entry.id))];
  const sizes = await readSizes(change, stored);
  const missing = stored.find((note) => !sizes.has(note));
  if (missing !== undefined) throw missingNoteError(missing);
  const sources = new Set<string>();
  for (const batch of splitIntoBatches(stored)) {
    for (const each of await readNoteSources(change, batch)) sources.add(each);
    await extendExpiry(change, bindList(batch), collection.expiresAt);
    await widenReach(change, bindList(batch), collection.reach);
  }
  const made = entries.filter((entry): entry is NewNote => !isStoredNote(entry));
  let next = made.length === 0 ? 0 : await insertNotes(change, made, origin, collection, id);

  const [before] = await tx.all(sql`
    select position, note, run from members where collection = ${id} and version = ${collection.version}
    order by position desc limit 1`);
  const runs = before === undefined ? [] : [toNoteRun(before)];
  let bytes = 0;
  for (const entry of entries) {
    appendNoteToRuns(runs, isStoredNote(entry) ? entry.id : next++);
    bytes += isStoredNote(entry) ? (sizes.get(entry.id) ?? 0) : entry.bytes;
  }
  const added = before === undefined ? runs.length : runs.length - 1;
  if (added > 0) await charge(change, toPayer(collection.origin), { rows: added });
  if (before !== undefined) {
    const [extended] = runs.splice(0, 1);
    await tx.all(sql`
      update members set run = ${extended?.run ?? 0}
      where collection = ${id} and version = ${collection.version} and position = ${Number(before.position)}`);
  }
  await insertRuns(change, id, collection.version, runs);
  await tx.all(sql`
    update collections set count = count + ${entries.length}, bytes = bytes + ${bytes}, changed_at = ${origin.at}
    where id = ${id}`);
  await touchCollection(change, id);
  await addSources(change, "collection", id, [...listSources(origin), ...sources]);
  return {
    ...collection,
    origin: mergeSources(collection.origin, [...listSources(origin), ...sources]),
    count: collection.count + entries.length,
    bytes: collection.bytes + bytes,
    changedAt: origin.at,
  };
}

export async function removeItems(change: Change, id: number, notes: ReadonlySet<number>, at: string): Promise<number> {
  const { tx } = change;
  const collection = await readCollection(change, id);
  if (collection === undefined) return 0;
  const sizes = await readSizes(change, [...notes]);
  const rows = await tx.all(sql`
    select position, note, run from members where collection = ${id} and version = ${collection.version}
    order by position`);
  const runs: NoteRun[] = [];
  let [places, bytes] = [0, 0];
  for (const { note, run } of rows.map(toNoteRun)) {
    for (let each = note; each < note + run; each++) {
      if (!notes.has(each)) appendNoteToRuns(runs, each);
      const size = sizes.get(each);
      if (size === undefined) continue;
      places += 1;
      bytes += size;
    }
  }
  if (places === 0) return 0;
  await charge(change, toPayer(collection.origin), { rows: runs.length });
  await insertRuns(change, id, collection.version + 1, runs);
  await tx.all(sql`
    update collections set version = version + 1, count = count - ${places}, bytes = bytes - ${bytes},
      changed_at = ${at} where id = ${id}`);
  await touchCollection(change, id);
  return places;
}

async function readNoteSources({ tx }: Change, ids: readonly number[]): Promise<ReadonlySet<string>> {
  const rows = await tx.all(sql`
    select distinct o.action, o.sources as origin_sources, n.sources from notes n join origins o on o.id = n.origin
    where n.id in (${bindList(ids)})`);
  const own = rows.map((row) => listSources({ action: unescapeColumn(row, "action", "a note") }));
  const more = rows.flatMap((row) => ["origin_sources", "sources"].map((column) => readSources(row, column, "a note")));
  return new Set([...own, ...more].flat());
}

async function insertRuns({ tx }: Change, id: number, version: number, runs: readonly NoteRun[]) {
  const rows = runs.map(({ position, note, run }) => sql`(${id}, ${version}, ${position}, ${note}, ${run})`);
  for (const batch of splitIntoBatches(rows)) {
    await tx.all(sql`
      insert into members (collection, version, position, note, run) values ${joinQueries(batch, ", ")}`);
  }
}

async function readSizes({ tx, now }: Change, ids: readonly number[]): Promise<ReadonlyMap<number, number>> {
  const sizes = new Map<number, number>();
  for (const batch of splitIntoBatches(ids)) {
    const rows = await tx.all(sql`
      select n.id, n.bytes from notes n where n.id in (${bindList(batch)}) and ${noteNotExpired(now)}`);
    for (const { id, bytes } of rows) sizes.set(Number(id), Number(bytes));
  }
  return sizes;
}

const isStoredNote = (entry: NewCollectionItem): entry is { readonly id: number } => "id" in entry;
const toNoteRun = ({ position, note, run }: SqlRow): NoteRun => ({
  position: Number(position),
  note: Number(note),
  run: Number(run),
});

function missingNoteError(id: number): QmError {
  return new QmError("not_found", `${formatHandle("note", id)} does not exist, so it cannot be added to a collection`, {
    hint: "It may have been removed or have expired. Nothing of this batch was added.",
  });
}
