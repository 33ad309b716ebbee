import type { InfospaceStore, OwnerScope, ResourceQuery } from "../infospace/infospace-store.ts";
import { type Collection, type NoteFacts, type NoteOrigin, noteVisibilities } from "../infospace/note.ts";
import { ownerKey, type Reader } from "./infospace-changes.ts";
import {
  collectionColumns,
  collectionNotExpired,
  collectionTables,
  noteColumns,
  noteNotExpired,
  noteTables,
  originColumns,
} from "./infospace-columns.ts";
import { escapeText, readCollectionRow, readNoteFactsRow, readOriginRow } from "./infospace-rows.ts";
import { runHasNote } from "./infospace-runs.ts";
import { bindList, joinQueries, matchTexts, type SqlQuery, type SqlRow, splitIntoBatches, sql } from "./sql.ts";
import { readIntactRows } from "./sql-rows.ts";

type CountQuery = Omit<ResourceQuery, "limit" | "before">;
type Allows = (origin: NoteOrigin) => boolean;
type ContentScope = OwnerScope | { readonly collection: number };

/** How many notes one statement looks at. A statement over all of them would block other callers. */
const PAGE_SIZE = 2_000;

const kinds = {
  note: { alias: sql`n`, columns: noteColumns, tables: noteTables, notExpired: noteNotExpired },
  collection: { alias: sql`c`, columns: collectionColumns, tables: collectionTables, notExpired: collectionNotExpired },
};

export function listResources(reader: () => Reader): InfospaceStore["list"] {
  function list(query: ResourceQuery & { readonly kind: "note" }): Promise<readonly NoteFacts[]>;
  function list(query: ResourceQuery & { readonly kind: "collection" }): Promise<readonly Collection[]>;
  async function list(query: ResourceQuery): Promise<readonly NoteFacts[] | readonly Collection[]> {
    const { kind, before, limit } = query;
    const { tx, now } = reader();
    const { alias, columns, tables } = kinds[kind];
    const all = conditions(query, now);
    if (before !== undefined) all.push(sql`${alias}.id < ${before}`);
    const rows = await tx.all(sql`
      select ${columns} from ${tables} where ${joinQueries(all, " and ")}
      order by ${alias}.id desc limit ${Math.max(0, Math.trunc(limit))}`);
    return kind === "note" ? readIntactRows(rows, readNoteFactsRow) : readIntactRows(rows, readCollectionRow);
  }
  return list;
}

export async function countResources({ tx, now }: Reader, query: CountQuery): Promise<number> {
  const all = conditions(query, now);
  const [row] = await tx.all(sql`
    select count(*) as n from ${kinds[query.kind].tables} where ${joinQueries(all, " and ")}`);
  return Number(row?.n);
}

export async function readMark({ tx, now }: Reader, of: ContentScope): Promise<string> {
  // A collection may hold notes of any owner, so every change counts.
  if ("collection" in of) {
    const [row] = await tx.all(sql`select last from resource_ids where kind = 'revision'`);
    return String(row?.last);
  }
  // A note expires without a change of the revision.
  const rows = await tx.all(sql`
    select w.key, w.revision,
      (select max(n.expires_at) from notes n where n.owner = w.id and n.expires_at <= ${now}) as notes_until,
      (select max(c.expires_at) from collections c where c.owner = w.id and c.expires_at <= ${now}) as collections_until
    from owners w where w.key in (${bindOwnerKeys(of)}) order by w.key`);
  return JSON.stringify(rows.map((row) => [row.key, row.revision, row.notes_until, row.collections_until].map(String)));
}

export async function readContents(reader: Reader, of: ContentScope, allows: Allows) {
  const found = new Map<number, string>();
  const allowed = new Map<string, boolean>();
  for await (const rows of "collection" in of ? pageMembers(reader, of.collection) : pageNotes(reader, of)) {
    if (!("collection" in of)) await checkOrigins(reader, rows, allowed, allows);
    for (const row of rows) if (allowed.get(originKey(row)) !== false) found.set(Number(row.id), toState(row));
  }
  return found;
}

async function* pageNotes({ tx, now }: Reader, scope: OwnerScope): AsyncGenerator<readonly SqlRow[]> {
  const columns = sql`n.id, n.part_of, n.hash, n.name, n.properties, n.origin, n.sources, n.expires_at`;
  for (const { id: owner } of await tx.all(selectOwners(scope))) {
    for (const isPart of [false, true]) {
      for (let last: SqlRow | undefined; ; ) {
        const part = Number(last?.part_of ?? 0);
        const after = isPart
          ? sql`(n.part_of > ${part} or n.part_of = ${part} and n.id > ${Number(last?.id ?? 0)})`
          : sql`n.part_of is null and n.id > ${Number(last?.id ?? 0)}`;
        const rows = await tx.all(sql`
          select ${columns} from notes n where n.owner = ${Number(owner)} and ${after}
          order by n.part_of, n.id limit ${PAGE_SIZE}`);
        yield rows.filter(({ expires_at }) => expires_at === null || String(expires_at) > now);
        last = rows.at(-1);
        if (rows.length < PAGE_SIZE) break;
      }
    }
  }
}

async function* pageMembers({ tx, now }: Reader, collection: number): AsyncGenerator<readonly SqlRow[]> {
  const members = sql`collections c join members m on m.collection = c.id and m.version = c.version`;
  const these = sql`c.id = ${collection} and ${collectionNotExpired(now)}`;
  const [end] = await tx.all(sql`select max(m.position) as furthest from ${members} where ${these}`);
  for (let from = 0; end?.furthest !== null && from <= Number(end?.furthest); from += PAGE_SIZE) {
    yield await tx.all(sql`
      select n.id, n.hash, n.name, n.properties from ${members} join notes n on ${runHasNote}
      where ${these} and m.position >= ${from} and m.position < ${from + PAGE_SIZE} and ${noteNotExpired(now)}`);
  }
}

/** Adds to `allowed` whether the origin of each row is allowed. Asks once for each origin. */
async function checkOrigins({ tx }: Reader, rows: readonly SqlRow[], allowed: Map<string, boolean>, allows: Allows) {
  const unknown = new Map(rows.map((row) => [originKey(row), row] as const).filter(([key]) => !allowed.has(key)));
  for (const batch of splitIntoBatches([...unknown.values()])) {
    const origins = await tx.all(sql`
      select o.id, ${originColumns}, null as sources from origins o
      where o.id in (${bindList(batch.map(({ origin }) => Number(origin)))})`);
    const byId = new Map(origins.map((row) => [Number(row.id), row]));
    for (const row of batch) {
      const origin = byId.get(Number(row.origin));
      const sources = row.sources ?? null;
      const isAllowed = origin !== undefined && allows(readOriginRow({ ...origin, sources }, "an origin"));
      allowed.set(originKey(row), isAllowed);
    }
  }
}

function conditions(query: CountQuery, now: string): SqlQuery[] {
  const { kind, whose, name, tenant, session, action, callId, saved, parts = false } = query;
  const { alias, notExpired } = kinds[kind];
  const origin = { "o.tenant": tenant, "o.session": session, "o.action": action, "o.call_id": callId };
  const all = [notExpired(now)];
  if (whose !== undefined) all.push(sql`${alias}.owner in (${selectOwners(whose)})`);
  all.push(...matchTexts({ [kind === "note" ? "n.name" : "c.name"]: name, ...origin }, escapeText));
  if (saved !== undefined) all.push(sql`${alias}.expires_at is ${saved ? sql`null` : sql`not null`}`);
  if (kind === "note" && !parts) all.push(sql`n.part_of is null`);
  return all;
}

const originKey = ({ origin, sources }: SqlRow): string => `${origin} ${sources ?? ""}`;
const toState = ({ hash, name, properties }: SqlRow): string =>
  name === null && properties === null ? String(hash) : [hash, name, properties].map(String).join("\n");
const selectOwners = (scope: OwnerScope): SqlQuery => sql`select id from owners where key in (${bindOwnerKeys(scope)})`;
const bindOwnerKeys = (scope: OwnerScope): SqlQuery =>
  bindList(noteVisibilities.map((reach) => ownerKey(reach, scope)));
