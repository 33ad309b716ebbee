import type { InfospaceStore, NewCollection, Retention, SaveRequest } from "../infospace/infospace-store.ts";
import { type Collection, listSources, type NoteFacts, type NoteOrigin } from "../infospace/note.ts";
import { NOTE_OVERHEAD, type Quota, type QuotaAmount } from "../infospace/quota.ts";
import {
  addSources,
  allocateIds,
  ensureOrigin,
  ensureOwner,
  extendExpiry,
  type InfospaceChange,
  pruneReferences,
  type RemovedReferences,
  RUN_LIMIT,
  runInfospaceChange,
  selectNoteIds,
  touchOwners,
  widenReach,
} from "./infospace-changes.ts";
import { dropCollection } from "./infospace-removal.ts";
import {
  collectionColumns,
  collectionNotExpired,
  collectionTables,
  escapeText,
  noteColumns,
  noteNotExpired,
  noteTables,
  readCollectionRow,
  readNoteFactsRow,
} from "./infospace-rows.ts";
import { charge, countCharacters, toPayer } from "./infospace-usage.ts";
import { type Sql, type SqlRow, sql } from "./sql.ts";

type CollectionMethods = Pick<
  InfospaceStore,
  "absorb" | "addCollection" | "collection" | "complete" | "replaceCollection" | "save" | "saveAll"
>;

/** Collections in SQL, but for what they hold. */
export function createCollectionMethods(db: Sql, now: () => Date, quota: Quota | undefined): CollectionMethods {
  return {
    addCollection: (origin, collection, standing) =>
      runInfospaceChange(db, now, (change) => addCollection(change, origin, collection, standing), quota),
    collection: (id) => readCollection({ tx: db, now: now().toISOString() }, id),
    complete: (id) =>
      runInfospaceChange(db, now, async (change) => {
        await change.tx.all(sql`update collections set complete = 1 where id = ${id}`);
        await touchOwners(change, sql`select owner from collections where id = ${id}`);
      }),
    replaceCollection: (id, by, at) =>
      runInfospaceChange(db, now, (change) => replaceCollection(change, id, by, at), quota),
    absorb: (id, by, at) => runInfospaceChange(db, now, (change) => absorb(change, id, by, at), quota),
    save: (kind, id, how) => runInfospaceChange(db, now, (change) => save(change, { kind, id, ...how })),
    saveAll: (list) =>
      runInfospaceChange(db, now, async (change) => {
        for (const each of list) await save(change, each);
      }),
  };
}

/** The collection, where it is there. */
export async function readCollection(
  { tx, now }: Pick<InfospaceChange, "tx" | "now">,
  id: number,
): Promise<Collection | undefined> {
  const [row] = await tx.all(sql`
    select ${collectionColumns} from ${collectionTables} where c.id = ${id} and ${collectionNotExpired(now)}`);
  return row === undefined ? undefined : readCollectionRow(row);
}

async function addCollection(
  change: InfospaceChange,
  origin: NoteOrigin,
  { name, properties }: NewCollection,
  { reach, expiresAt }: Retention,
): Promise<number> {
  const label = properties === undefined ? null : JSON.stringify(properties);
  await charge(change, toPayer(origin), { notes: 1, bytes: NOTE_OVERHEAD + countCharacters(label) });
  const id = await allocateIds(change.tx, "collection", 1);
  const from = await ensureOrigin(change, origin);
  const owner = await ensureOwner(change, reach, origin);
  await change.tx.all(sql`
    insert into collections (id, origin, owner, expires_at, complete, version, count, bytes, changed_at, name, properties)
    values (${id}, ${from}, ${owner}, ${expiresAt ?? null}, 0, 1, 0, 0, ${origin.at}, ${escapeText(name)},
      ${label})`);
  return id;
}

async function replaceCollection(
  change: InfospaceChange,
  id: number,
  by: number,
  at: string,
): Promise<Collection | undefined> {
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

async function absorb(change: InfospaceChange, id: number, by: number, at: string): Promise<Collection | undefined> {
  const { tx } = change;
  const [old, next] = [await readCollection(change, id), await readCollection(change, by)];
  if (old === undefined || next === undefined || id === by) return undefined;
  const { rows } = await measureMove(change, id, by);
  // Only those that are added: what it holds already may reach fewer, and for a reason.
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

function isOneRun(last: SqlRow, first: SqlRow): boolean {
  return (
    Number(last.note) + Number(last.run) === Number(first.note) && Number(last.run) + Number(first.run) <= RUN_LIMIT
  );
}

/** The notes that moved from one collection to another stand as that one does, and the one that is empty now goes. */
async function takeOver(
  change: InfospaceChange,
  { id, version, expiresAt, origin }: Pick<Collection, "id" | "version" | "origin"> & Pick<Retention, "expiresAt">,
  next: Collection,
  moved: Partial<QuotaAmount> & Pick<QuotaAmount, "rows">,
): Promise<Collection | undefined> {
  const parts = sql`part_of = ${next.id} and id in (${selectNoteIds(id, version)})`;
  await touchOwners(change, sql`select owner from notes where ${parts}`);
  await change.tx.all(sql`update notes set part_of = ${id} where ${parts}`);
  await extendExpiry(change, selectNoteIds(id), expiresAt);
  await addSources(change, { kind: "collection", id }, listSources(next.origin));
  await touchOwners(change, sql`select owner from collections where id = ${id}`);
  const left: RemovedReferences = { origins: new Set(), owners: new Set() };
  await dropCollection(change, next.id, left, sql`n.part_of is not null`);
  // The rows are paid for by whoever pays for the collection. Given back first, so that nothing counts twice.
  await charge(change, toPayer(next.origin), { rows: -moved.rows });
  await charge(change, toPayer(origin), moved);
  await pruneReferences(change, left);
  return readCollection(change, id);
}

/** The rows that one collection gives to another, and by how much that one's properties grow. */
async function measureMove(
  { tx }: InfospaceChange,
  to: number,
  from: number,
): Promise<Pick<QuotaAmount, "rows" | "bytes">> {
  const [row] = await tx.all(sql`
    select (select count(*) from members m where m.collection = b.id and m.version = b.version) as row_count,
      case when b.properties is null then 0
        else length(b.properties) - length(coalesce(a.properties, '')) end as bytes
    from collections a, collections b where a.id = ${to} and b.id = ${from}`);
  return { rows: Number(row?.row_count), bytes: Number(row?.bytes) };
}

/** Absent: for good, which is later than every other. */
function pickLaterExpiry(one: string | undefined, other: string | undefined): string | undefined {
  if (one === undefined || other === undefined) return undefined;
  return one > other ? one : other;
}

function save(change: InfospaceChange, saving: SaveRequest): Promise<NoteFacts | Collection | undefined> {
  return saving.kind === "note" ? saveNote(change, saving) : saveCollection(change, saving);
}

/** What was made for a collection and is saved for itself stands for itself from then on, whatever becomes of the other. */
async function saveNote(change: InfospaceChange, { id, reach, name, at }: SaveRequest): Promise<NoteFacts | undefined> {
  const { tx, now } = change;
  const find = sql`select ${noteColumns}, n.owner from ${noteTables} where n.id = ${id} and ${noteNotExpired(now)}`;
  const [before] = await tx.all(find);
  if (before === undefined) return undefined;
  const owner = await ensureOwner(change, reach, readNoteFactsRow(before).origin);
  await tx.all(sql`
    update notes set owner = ${owner}, expires_at = null, part_of = null, changed_at = ${at}
      ${name === undefined ? sql`` : sql`, name = ${escapeText(name)}`}
    where id = ${id}`);
  await pruneReferences(change, { origins: new Set(), owners: new Set([Number(before.owner)]) });
  const [row] = await tx.all(find);
  return row === undefined ? undefined : readNoteFactsRow(row);
}

async function saveCollection(
  change: InfospaceChange,
  { id, reach, name, at }: SaveRequest,
): Promise<Collection | undefined> {
  const { tx } = change;
  const before = await readCollection(change, id);
  if (before === undefined) return undefined;
  await touchOwners(change, sql`select owner from collections where id = ${id}`);
  const owner = await ensureOwner(change, reach, before.origin);
  await tx.all(sql`
    update collections set owner = ${owner}, expires_at = null, changed_at = ${at}
      ${name === undefined ? sql`` : sql`, name = ${escapeText(name)}`}
    where id = ${id}`);
  // What it held before is kept with it, and reaches no farther for that.
  await extendExpiry(change, selectNoteIds(id), undefined);
  await widenReach(change, selectNoteIds(id, before.version), reach);
  return readCollection(change, id);
}
