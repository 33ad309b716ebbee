import { MAX_VERSIONS, type NewNote, type Retention } from "../infospace/infospace-store.ts";
import type { Note, NoteFacts, NoteOrigin, NoteVersion } from "../infospace/note.ts";
import { NOTE_OVERHEAD } from "../infospace/quota.ts";
import { allocateIds, type Change, ensureOrigin, ensureOwner, type Reader, touchOwners } from "./infospace-changes.ts";
import { noteColumns, noteNotExpired, noteTables, selectNoteFacts, selectNotes } from "./infospace-columns.ts";
import { escapeText, readNoteFactsRow, readNoteRow, readVersionRow } from "./infospace-rows.ts";
import { findNoteHolders } from "./infospace-runs.ts";
import { addSources } from "./infospace-sources.ts";
import { charge, countCharacters, toPayer } from "./infospace-usage.ts";
import { bindList, joinQueries, splitIntoBatches, sql } from "./sql.ts";
import { readIntactRows } from "./sql-rows.ts";

/** The content of a note is in its row, earlier versions are in the history. */
export async function readNote({ tx, now }: Reader, id: number): Promise<Note | undefined> {
  const [row] = await tx.all(sql`${selectNotes} where n.id = ${id} and ${noteNotExpired(now)}`);
  return row === undefined ? undefined : readNoteRow(row);
}

export async function readNoteFacts({ tx, now }: Reader, id: number): Promise<NoteFacts | undefined> {
  const [row] = await tx.all(sql`${selectNoteFacts} where n.id = ${id} and ${noteNotExpired(now)}`);
  return row === undefined ? undefined : readNoteFactsRow(row);
}

export async function readNotes({ tx, now }: Reader, ids: readonly number[]): Promise<readonly Note[]> {
  const all: Note[] = [];
  for (const batch of splitIntoBatches([...new Set(ids)])) {
    const rows = await tx.all(sql`${selectNotes} where n.id in (${bindList(batch)}) and ${noteNotExpired(now)}`);
    all.push(...readIntactRows(rows, readNoteRow));
  }
  return all;
}

export async function readHistory({ tx, now }: Reader, id: number): Promise<readonly NoteVersion[]> {
  const rows = await tx.all(sql`
    select n.id, h.version, h.format, h.hash, h.bytes, h.changed_at
    from note_history h join notes n on n.id = h.note
    where h.note = ${id} and ${noteNotExpired(now)} order by h.version`);
  return readIntactRows(rows, readVersionRow);
}

export async function readNoteVersion(reader: Reader, id: number, version: number): Promise<Note | undefined> {
  const [row] = await reader.tx.all(sql`
    select ${noteColumns}, h.version, h.format, h.hash, h.bytes, h.changed_at, h.content, f.data
    from ${noteTables} join note_history h on h.note = n.id
    left join note_files f on f.note = h.note and f.version = h.version
    where n.id = ${id} and h.version = ${version} and ${noteNotExpired(reader.now)}`);
  if (row !== undefined) return readNoteRow(row);
  const present = await readNote(reader, id);
  return present?.version === version ? present : undefined;
}

/** Returns the id of the first note. */
export async function insertNotes(
  change: Change,
  notes: readonly NewNote[],
  origin: NoteOrigin,
  { reach, expiresAt }: Retention,
  partOf?: number,
): Promise<number> {
  const first = await allocateIds(change.tx, "note", notes.length);
  if (notes.length === 0) return first;
  const labels = notes.map(({ properties }) => (properties === undefined ? null : JSON.stringify(properties)));
  const bytes = notes.reduce((sum, note, index) => sum + note.bytes + countCharacters(labels[index] ?? null), 0);
  await charge(change, toPayer(origin), { notes: notes.length, bytes: bytes + notes.length * NOTE_OVERHEAD });
  const from = await ensureOrigin(change, origin);
  const owner = await ensureOwner(change, reach, origin);
  const rows = notes.map(
    ({ format, bytes, hash, name, text }, index) => sql`(
      ${first + index}, ${from}, ${owner}, ${partOf ?? null}, ${expiresAt ?? null}, ${format}, 1, ${bytes},
      ${hash}, ${origin.at}, ${escapeText(name)}, ${labels[index] ?? null}, ${text})`,
  );
  for (const batch of splitIntoBatches(rows)) {
    await change.tx.all(sql`
      insert into notes (id, origin, owner, part_of, expires_at, format, version, bytes, hash, changed_at, name,
        properties, content)
      values ${joinQueries(batch, ", ")}`);
  }
  for (const [index, { file }] of notes.entries()) await insertFile(change, first + index, 1, file);
  return first;
}

// One at a time: a file may be as long as a statement can be.
async function insertFile({ tx }: Change, id: number, version: number, file?: Uint8Array): Promise<void> {
  if (file === undefined) return;
  await tx.all(sql`insert into note_files (note, version, data) values (${id}, ${version}, ${file})`);
}

export async function replaceNote(
  change: Change,
  id: number,
  version: number,
  content: NewNote,
  at: string,
  sources: readonly string[],
): Promise<NoteFacts | undefined> {
  const { tx, now } = change;
  const [before] = await tx.all(sql`
    select ${noteColumns}, n.owner, length(coalesce(n.properties, '')) as label, coalesce((
      select sum(h.bytes) from note_history h where h.note = n.id and h.version <= ${version - MAX_VERSIONS}), 0) as dropped
    from ${noteTables} where n.id = ${id} and n.version = ${version} and ${noteNotExpired(now)}`);
  if (before === undefined) return undefined;
  const { format, text, bytes, hash, name } = content;
  const properties = content.properties === undefined ? undefined : JSON.stringify(content.properties);
  const label = properties === undefined ? 0 : countCharacters(properties) - Number(before.label);
  // The present content moves to the history, and the oldest version is dropped from there.
  const facts = readNoteFactsRow(before);
  await charge(change, toPayer(facts.origin), { bytes: bytes + label - Number(before.dropped) });
  await tx.all(sql`
    insert into note_history (note, version, format, bytes, hash, changed_at, content)
    select id, version, format, bytes, hash, changed_at, content from notes where id = ${id}`);
  await tx.all(sql`
    update notes set version = version + 1, format = ${format}, bytes = ${bytes}, hash = ${hash}, changed_at = ${at},
      ${name === undefined ? sql`` : sql`name = ${escapeText(name)},`}
      ${properties === undefined ? sql`` : sql`properties = ${properties},`}
      content = ${text}
    where id = ${id}`);
  await insertFile(change, id, version + 1, content.file);
  await tx.all(sql`delete from note_history where note = ${id} and version <= ${version - MAX_VERSIONS}`);
  await tx.all(sql`delete from note_files where note = ${id} and version <= ${version - MAX_VERSIONS}`);
  await touchOwners(change, bindList([Number(before.owner)]));
  await addSources(change, "note", id, sources);
  for (const { collection, owner, places } of await findNoteHolders(change, id)) {
    const more = places * (bytes - Number(before.bytes));
    await tx.all(sql`update collections set bytes = bytes + ${more} where id = ${collection}`);
    await touchOwners(change, bindList([owner]));
  }
  const [row] = await tx.all(sql`${selectNoteFacts} where n.id = ${id}`);
  return row === undefined ? undefined : readNoteFactsRow(row);
}
