import {
  type InfospaceStore,
  MAX_VERSIONS,
  type NewNote,
  type Retention,
  type StoredContent,
} from "../infospace/infospace-store.ts";
import type { Note, NoteFacts, NoteOrigin } from "../infospace/note.ts";
import { NOTE_OVERHEAD, type Quota } from "../infospace/quota.ts";
import {
  addSources,
  allocateIds,
  ensureOrigin,
  ensureOwner,
  findNoteHolders,
  type InfospaceChange,
  joinIds,
  runInfospaceChange,
  touchOwners,
} from "./infospace-changes.ts";
import {
  contentColumns,
  escapeText,
  fileTable,
  noteColumns,
  noteNotExpired,
  noteTables,
  readNoteFactsRow,
  readNoteRow,
  readVersionRow,
} from "./infospace-rows.ts";
import { charge, countCharacters, toPayer } from "./infospace-usage.ts";
import { joinQueries, readIntactRows, type Sql, splitIntoBatches, sql } from "./sql.ts";

type NoteMethods = Pick<
  InfospaceStore,
  "addNotes" | "note" | "noteFacts" | "notes" | "replaceNote" | "history" | "noteVersion"
>;

/** Notes in SQL: what a note says now is in its row, what it said before in the history. */
export function createNoteMethods(db: Sql, now: () => Date, quota: Quota | undefined): NoteMethods {
  const notExpired = () => noteNotExpired(now().toISOString());

  async function note(id: number): Promise<Note | undefined> {
    const [row] = await db.all(sql`
      select ${noteColumns}, ${contentColumns} from ${noteTables} ${fileTable} where n.id = ${id} and ${notExpired()}`);
    return row === undefined ? undefined : readNoteRow(row);
  }

  return {
    addNotes: (origin, notes, standing) =>
      runInfospaceChange(db, now, (change) => insertNotes(change, notes, { origin, standing }), quota),
    note,
    async noteFacts(id) {
      const [row] = await db.all(sql`select ${noteColumns} from ${noteTables} where n.id = ${id} and ${notExpired()}`);
      return row === undefined ? undefined : readNoteFactsRow(row);
    },
    async notes(ids) {
      const all: Note[] = [];
      for (const some of splitIntoBatches([...new Set(ids)])) {
        const rows = await db.all(sql`
          select ${noteColumns}, ${contentColumns} from ${noteTables} ${fileTable}
          where n.id in (${joinIds(some)}) and ${notExpired()}`);
        all.push(...readIntactRows(rows, readNoteRow));
      }
      return all;
    },
    replaceNote: (id, version, content, at, sources = []) =>
      runInfospaceChange(db, now, (change) => replaceNote(change, id, version, content, { at, sources }), quota),
    async history(id) {
      const rows = await db.all(sql`
        select n.id, h.version, h.format, h.hash, h.bytes, h.changed_at
        from note_history h join notes n on n.id = h.note where h.note = ${id} and ${notExpired()} order by h.version`);
      return readIntactRows(rows, readVersionRow);
    },
    async noteVersion(id, version) {
      const [row] = await db.all(sql`
        select ${noteColumns}, h.version, h.format, h.hash, h.bytes, h.changed_at, h.content, f.data
        from ${noteTables} join note_history h on h.note = n.id
        left join note_files f on f.note = h.note and f.version = h.version
        where n.id = ${id} and h.version = ${version} and ${notExpired()}`);
      if (row !== undefined) return readNoteRow(row);
      const present = await note(id);
      return present?.version === version ? present : undefined;
    },
  };
}

/** Answers the id of the first. */
export async function insertNotes(
  change: InfospaceChange,
  notes: readonly NewNote[],
  { origin, standing, partOf }: { readonly origin: NoteOrigin; readonly standing: Retention; readonly partOf?: number },
): Promise<number> {
  const first = await allocateIds(change.tx, "note", notes.length);
  if (notes.length === 0) return first;
  const labels = notes.map(({ properties }) => (properties === undefined ? null : JSON.stringify(properties)));
  const bytes = notes.reduce((sum, note, index) => sum + note.bytes + countCharacters(labels[index] ?? null), 0);
  await charge(change, toPayer(origin), { notes: notes.length, bytes: bytes + notes.length * NOTE_OVERHEAD });
  const from = await ensureOrigin(change, origin);
  const owner = await ensureOwner(change, standing.reach, origin);
  const rows = notes.map(
    ({ format, bytes, hash, name, text }, index) => sql`(
      ${first + index}, ${from}, ${owner}, ${partOf ?? null}, ${standing.expiresAt ?? null}, ${format}, 1, ${bytes},
      ${hash}, ${origin.at}, ${escapeText(name)}, ${labels[index] ?? null}, ${text})`,
  );
  for (const some of splitIntoBatches(rows)) {
    await change.tx.all(sql`
      insert into notes (id, origin, owner, part_of, expires_at, format, version, bytes, hash, changed_at, name,
        properties, content)
      values ${joinQueries(some, ", ")}`);
  }
  for (const [index, content] of notes.entries()) await insertFile(change, first + index, 1, content);
  return first;
}

// One by one: a file may be as long as a statement can be.
async function insertFile(
  { tx }: InfospaceChange,
  id: number,
  version: number,
  { file }: StoredContent,
): Promise<void> {
  if (file === undefined) return;
  await tx.all(sql`insert into note_files (note, version, data) values (${id}, ${version}, ${file})`);
}

async function replaceNote(
  change: InfospaceChange,
  id: number,
  version: number,
  content: NewNote,
  { at, sources }: { readonly at: string; readonly sources: readonly string[] },
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
  // What it says now goes to the history, and what is too old there goes.
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
  await insertFile(change, id, version + 1, content);
  await tx.all(sql`delete from note_history where note = ${id} and version <= ${version - MAX_VERSIONS}`);
  await tx.all(sql`delete from note_files where note = ${id} and version <= ${version - MAX_VERSIONS}`);
  await touchOwners(change, joinIds([Number(before.owner)]));
  await addSources(change, { kind: "note", id }, sources);
  for (const { collection, owner, places } of await findNoteHolders(change, id)) {
    const more = places * (bytes - Number(before.bytes));
    await tx.all(sql`update collections set bytes = bytes + ${more} where id = ${collection}`);
    await touchOwners(change, joinIds([owner]));
  }
  const [row] = await tx.all(sql`select ${noteColumns} from ${noteTables} where n.id = ${id}`);
  return row === undefined ? undefined : readNoteFactsRow(row);
}
