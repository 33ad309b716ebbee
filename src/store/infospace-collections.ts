import type { NewCollection, Retention, SaveRequest } from "../infospace/infospace-store.ts";
import { type Collection, listSources, type NoteFacts, type NoteOrigin } from "../infospace/note.ts";
import { NOTE_OVERHEAD, type QuotaAmount } from "../infospace/quota.ts";
import {
  allocateIds,
  type Change,
  ensureOrigin,
  ensureOwner,
  extendExpiry,
  pruneReferences,
  type Reader,
  RemovedReferences,
  touchCollection,
  touchOwners,
  widenReach,
} from "./infospace-changes.ts";
import {
  collectionNotExpired,
  noteColumns,
  noteNotExpired,
  noteTables,
  selectCollections,
} from "./infospace-columns.ts";
import { dropCollection } from "./infospace-removal.ts";
import { escapeText, readCollectionRow, readNoteFactsRow } from "./infospace-rows.ts";
import { RUN_LIMIT, selectNoteIds } from "./infospace-runs.ts";
import { addSources } from "./infospace-sources.ts";
import { charge, countCharacters, toPayer } from "./infospace-usage.ts";
import { type SqlRow, sql } from "./sql.ts";

export async function readCollection({ tx, now }: Reader, id: number): Promise<Collection | undefined> {
  const [row] = await tx.all(sql`${selectCollections} where c.id = ${id} and ${collectionNotExpired(now)}`);
  return row === undefined ? undefined : readCollectionRow(row);
}

export async function addCollection(change: Change, origin: NoteOrigin, made: NewCollection, retention: Retention) {
  const label = made.properties === undefined ? null : JSON.stringify(made.properties);
  await charge(change, toPayer(origin), { notes: 1, bytes: NOTE_OVERHEAD + countCharacters(label) });
  const id = await allocateIds(change.tx, "collection", 1);
  const from = await ensureOrigin(change, origin);
  const owner = await ensureOwner(change, retention.reach, origin);
  await change.tx.all(sql`
    insert into collections (id, origin, owner, expires_at, complete, version, count, bytes, changed_at, name, properties)
    values (${id}, ${from}, ${owner}, ${retention.expiresAt ?? null}, 0, 1, 0, 0, ${origin.at},
      ${escapeText(made.name)}, ${label})`);
  return id;
}

export async function replaceCollection(change: Change, id: number, by: number, at: string) {
  const { tx } = change;
  const [old, next] = [await readCollection(change, id), await readCollection(change, by)];
  if (old === undefined || next === undefined || id === by) return undefined;
  const version = old.version + 1;
  const expiresAt = pickLaterExpiry(old.expiresAt, next.expiresAt);
  const moved = await measureMove(change, id, by);
  await tx.all(sql`
    update members set collection = ${id}, version = ${version} where collection = ${by} and version = ${next.version}`);
  await tx.all(sql`
    update collections set version = ${version}, count = ${next.count}, bytes = ${next.bytes},
      complete = ${next.complete ? 1 : 0}, expires_at = ${expiresAt ?? null}, changed_at = ${at},
      properties = coalesce((select b.properties from collections b where b.id = ${by}), properties)
    where id = ${id}`);
  await widenReach(change, selectNoteIds(id, version), old.reach);
  return takeOver(change, { ...old, version, expiresAt }, next, moved);
}

export async function absorb(change: Change, id: number, by: number, at: string): Promise<Collection | undefined> {
  const { tx } = change;
  const [old, next] = [await readCollection(change, id), await readCollection(change, by)];
  if (old === undefined || next === undefined || id === by) return undefined;
  const { rows } = await measureMove(change, id, by);
  // Only the added notes: those already in the collection may be less visible on purpose.
  await widenReach(change, selectNoteIds(by, next.version), old.reach);
  const runs = sql`select position, note, run from members`;
  const [last] = await tx.all(sql`
    ${runs} where collection = ${id} and version = ${old.version} order by position desc limit 1`);
  const end = last === undefined ? 0 : Number(last.position) + Number(last.run);
  await tx.all(sql`
    update members set collection = ${id}, version = ${old.version}, position = position + ${end}
    where collection = ${by} and version = ${next.version}`);
  const [first] = await tx.all(sql`
    ${runs} where collection = ${id} and version = ${old.version} and position = ${end}`);
  const merged = last !== undefined && first !== undefined && isOneRun(last, first);
  if (merged) {
    const place = sql`collection = ${id} and version = ${old.version} and position`;
    await tx.all(sql`update members set run = run + ${Number(first.run)} where ${place} = ${Number(last.position)}`);
    await tx.all(sql`delete from members where ${place} = ${end}`);
    await charge(change, toPayer(next.origin), { rows: -1 });
  }
  await tx.all(sql`
    update collections set count = count + ${next.count}, bytes = bytes + ${next.bytes}, changed_at = ${at}
    where id = ${id}`);
  return takeOver(change, old, next, { rows: merged ? rows - 1 : rows });
}

const isOneRun = ({ note, run }: SqlRow, next: SqlRow): boolean =>
  Number(note) + Number(run) === Number(next.note) && Number(run) + Number(next.run) <= RUN_LIMIT;

/** Gives moved notes the retention of their new collection, and removes the empty one. */
async function takeOver(
  change: Change,
  { id, version, expiresAt, origin }: Omit<Collection, "expiresAt"> & Pick<Retention, "expiresAt">,
  next: Collection,
  moved: Partial<QuotaAmount> & Pick<QuotaAmount, "rows">,
): Promise<Collection | undefined> {
  const parts = sql`part_of = ${next.id} and id in (${selectNoteIds(id, version)})`;
  await touchOwners(change, sql`select owner from notes where ${parts}`);
  await change.tx.all(sql`update notes set part_of = ${id} where ${parts}`);
  await extendExpiry(change, selectNoteIds(id), expiresAt);
  await addSources(change, "collection", id, listSources(next.origin));
  await touchCollection(change, id);
  const removed = new RemovedReferences();
  await dropCollection(change, next.id, removed, sql`n.part_of is not null`);
  // The rows count for the payer of the collection. They are released first, so that none counts twice.
  await charge(change, toPayer(next.origin), { rows: -moved.rows });
  await charge(change, toPayer(origin), moved);
  await pruneReferences(change, removed.owners, removed.origins);
  return readCollection(change, id);
}

/** Counts the rows that move, and by how much the properties of the target grow. */
async function measureMove({ tx }: Change, to: number, from: number): Promise<Pick<QuotaAmount, "rows" | "bytes">> {
  const [row] = await tx.all(sql`
    select (select count(*) from members m where m.collection = b.id and m.version = b.version) as row_count,
      case when b.properties is null then 0
        else length(b.properties) - length(coalesce(a.properties, '')) end as bytes
    from collections a, collections b where a.id = ${to} and b.id = ${from}`);
  return { rows: Number(row?.row_count), bytes: Number(row?.bytes) };
}

/** Undefined means never, which is later than any time. */
function pickLaterExpiry(one: string | undefined, other: string | undefined): string | undefined {
  if (one === undefined || other === undefined) return undefined;
  return one > other ? one : other;
}

export const save = (change: Change, saving: SaveRequest): Promise<NoteFacts | Collection | undefined> =>
  saving.kind === "note" ? saveNote(change, saving) : saveCollection(change, saving);

/** A saved note no longer belongs to the collection it was made for, so it outlives that collection. */
async function saveNote(change: Change, { id, reach, name, at }: SaveRequest): Promise<NoteFacts | undefined> {
  const { tx, now } = change;
  const find = sql`select ${noteColumns}, n.owner from ${noteTables} where n.id = ${id} and ${noteNotExpired(now)}`;
  const [before] = await tx.all(find);
  if (before === undefined) return undefined;
  const owner = await ensureOwner(change, reach, readNoteFactsRow(before).origin);
  await tx.all(sql`
    update notes set owner = ${owner}, expires_at = null, part_of = null, changed_at = ${at}
      ${name === undefined ? sql`` : sql`, name = ${escapeText(name)}`}
    where id = ${id}`);
  await pruneReferences(change, new Set([Number(before.owner)]));
  const [row] = await tx.all(find);
  return row === undefined ? undefined : readNoteFactsRow(row);
}

async function saveCollection(change: Change, { id, reach, name, at }: SaveRequest): Promise<Collection | undefined> {
  const { tx } = change;
  const before = await readCollection(change, id);
  if (before === undefined) return undefined;
  await touchCollection(change, id);
  const owner = await ensureOwner(change, reach, before.origin);
  await tx.all(sql`
    update collections set owner = ${owner}, expires_at = null, changed_at = ${at}
      ${name === undefined ? sql`` : sql`, name = ${escapeText(name)}`}
    where id = ${id}`);
  // Notes of earlier versions are saved too, but their visibility stays.
  await extendExpiry(change, selectNoteIds(id), undefined);
  await widenReach(change, selectNoteIds(id, before.version), reach);
  return readCollection(change, id);
}
