import {
  type InfospaceStore,
  type NewNote,
  type Standing,
  type StoredContent,
  VERSIONS_KEPT,
} from "../infospace/infospace-store.ts";
import type { Note, NoteFacts, Origin } from "../infospace/note.ts";
import { NOTE_OVERHEAD, type Quota } from "../infospace/quota.ts";
import { readable } from "./columns.ts";
import { type Change, changing, listed, nextIds, originId, ownerId, touch } from "./infospace-change.ts";
import {
  contentColumns,
  exact,
  factsOf,
  fileTable,
  noteColumns,
  noteIsThere,
  noteOf,
  noteTables,
  versionOf,
} from "./infospace-rows.ts";
import { holdersOf } from "./infospace-runs.ts";
import { addSources } from "./infospace-sources.ts";
import { charge, lengthOf, payerOf } from "./infospace-use.ts";
import { portions } from "./portions.ts";
import { join, type Sql, sql } from "./sql.ts";

type NoteMethods = Pick<
  InfospaceStore,
  "addNotes" | "note" | "noteFacts" | "notes" | "replaceNote" | "history" | "noteVersion"
>;

/** Notes in SQL: what a note says now is in its row, what it said before in the history. */
export function noteMethods(db: Sql, now: () => Date, quota: Quota | undefined): NoteMethods {
  const isThere = () => noteIsThere(now().toISOString());

  async function note(id: number): Promise<Note | undefined> {
    const [row] = await db.all(sql`
      select ${noteColumns}, ${contentColumns} from ${noteTables} ${fileTable} where n.id = ${id} and ${isThere()}`);
    return row === undefined ? undefined : noteOf(row);
  }

  return {
    addNotes: (origin, notes, standing) =>
      changing(db, now, (change) => insertNotes(change, notes, { origin, standing }), quota),
    note,
    async noteFacts(id) {
      const [row] = await db.all(sql`select ${noteColumns} from ${noteTables} where n.id = ${id} and ${isThere()}`);
      return row === undefined ? undefined : factsOf(row);
    },
    async notes(ids) {
      const all: Note[] = [];
      for (const some of portions([...new Set(ids)])) {
        const rows = await db.all(sql`
          select ${noteColumns}, ${contentColumns} from ${noteTables} ${fileTable}
          where n.id in (${listed(some)}) and ${isThere()}`);
        all.push(...readable(rows, noteOf));
      }
      return all;
    },
    replaceNote: (id, version, content, at, sources = []) =>
      changing(db, now, (change) => replaceNote(change, id, version, content, { at, sources }), quota),
    async history(id) {
      const rows = await db.all(sql`
        select n.id, h.version, h.format, h.hash, h.bytes, h.changed_at
        from note_history h join notes n on n.id = h.note where h.note = ${id} and ${isThere()} order by h.version`);
      return readable(rows, versionOf);
    },
    async noteVersion(id, version) {
      const [row] = await db.all(sql`
        select ${noteColumns}, h.version, h.format, h.hash, h.bytes, h.changed_at, h.content, f.data
        from ${noteTables} join note_history h on h.note = n.id
        left join note_files f on f.note = h.note and f.version = h.version
        where n.id = ${id} and h.version = ${version} and ${isThere()}`);
      if (row !== undefined) return noteOf(row);
      const present = await note(id);
      return present?.version === version ? present : undefined;
    },
  };
}

/** Answers the id of the first. */
export async function insertNotes(
  change: Change,
  notes: readonly NewNote[],
  { origin, standing, partOf }: { readonly origin: Origin; readonly standing: Standing; readonly partOf?: number },
): Promise<number> {
  const first = await nextIds(change.tx, "note", notes.length);
  if (notes.length === 0) return first;
  const labels = notes.map(({ properties }) => (properties === undefined ? null : JSON.stringify(properties)));
  const bytes = notes.reduce((sum, note, index) => sum + note.bytes + lengthOf(labels[index] ?? null), 0);
  await charge(change, payerOf(origin), { notes: notes.length, bytes: bytes + notes.length * NOTE_OVERHEAD });
  const from = await originId(change, origin);
  const owner = await ownerId(change, standing.reach, origin);
  const rows = notes.map(
    ({ format, bytes, hash, name, text }, index) => sql`(
      ${first + index}, ${from}, ${owner}, ${partOf ?? null}, ${standing.expiresAt ?? null}, ${format}, 1, ${bytes},
      ${hash}, ${origin.at}, ${exact(name)}, ${labels[index] ?? null}, ${text})`,
  );
  for (const some of portions(rows)) {
    await change.tx.all(sql`
      insert into notes (id, origin, owner, part_of, expires_at, format, version, bytes, hash, changed_at, name,
        properties, content)
      values ${join(some, ", ")}`);
  }
  for (const [index, content] of notes.entries()) await insertFile(change, first + index, 1, content);
  return first;
}

// One by one: a file may be as long as a statement can be.
async function insertFile({ tx }: Change, id: number, version: number, { file }: StoredContent): Promise<void> {
  if (file === undefined) return;
  await tx.all(sql`insert into note_files (note, version, data) values (${id}, ${version}, ${file})`);
}

async function replaceNote(
  change: Change,
  id: number,
  version: number,
  content: NewNote,
  { at, sources }: { readonly at: string; readonly sources: readonly string[] },
): Promise<NoteFacts | undefined> {
  const { tx, now } = change;
  const [before] = await tx.all(sql`
    select ${noteColumns}, n.owner, length(coalesce(n.properties, '')) as label, coalesce((
      select sum(h.bytes) from note_history h where h.note = n.id and h.version <= ${version - VERSIONS_KEPT}), 0) as dropped
    from ${noteTables} where n.id = ${id} and n.version = ${version} and ${noteIsThere(now)}`);
  if (before === undefined) return undefined;
  const { format, text, bytes, hash, name } = content;
  const properties = content.properties === undefined ? undefined : JSON.stringify(content.properties);
  const label = properties === undefined ? 0 : lengthOf(properties) - Number(before.label);
  // What it says now goes to the history, and what is too old there goes.
  const facts = factsOf(before);
  await charge(change, payerOf(facts.origin), { bytes: bytes + label - Number(before.dropped) });
  await tx.all(sql`
    insert into note_history (note, version, format, bytes, hash, changed_at, content)
    select id, version, format, bytes, hash, changed_at, content from notes where id = ${id}`);
  await tx.all(sql`
    update notes set version = version + 1, format = ${format}, bytes = ${bytes}, hash = ${hash}, changed_at = ${at},
      ${name === undefined ? sql`` : sql`name = ${exact(name)},`}
      ${properties === undefined ? sql`` : sql`properties = ${properties},`}
      content = ${text}
    where id = ${id}`);
  await insertFile(change, id, version + 1, content);
  await tx.all(sql`delete from note_history where note = ${id} and version <= ${version - VERSIONS_KEPT}`);
  await tx.all(sql`delete from note_files where note = ${id} and version <= ${version - VERSIONS_KEPT}`);
  await touch(change, listed([Number(before.owner)]));
  await addSources(change, { kind: "note", id }, sources);
  for (const { collection, owner, places } of await holdersOf(change, id)) {
    const more = places * (bytes - Number(before.bytes));
    await tx.all(sql`update collections set bytes = bytes + ${more} where id = ${collection}`);
    await touch(change, listed([owner]));
  }
  const [row] = await tx.all(sql`select ${noteColumns} from ${noteTables} where n.id = ${id}`);
  return row === undefined ? undefined : factsOf(row);
}
