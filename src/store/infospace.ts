import type { InfospaceStore, OwnerScope, ResourceQuery } from "../infospace/infospace-store.ts";
import { type Collection, type NoteFacts, type NoteOrigin, noteVisibilities } from "../infospace/note.ts";
import type { Quota } from "../infospace/quota.ts";
import { createSourceMethods, joinIds, ownerKey, runHasNote } from "./infospace-changes.ts";
import { createCollectionMethods } from "./infospace-collections.ts";
import { createMemberMethods } from "./infospace-members.ts";
import { createNoteMethods } from "./infospace-notes.ts";
import { createRemovalMethods } from "./infospace-removal.ts";
import {
  collectionColumns,
  collectionNotExpired,
  collectionTables,
  escapeText,
  noteColumns,
  noteNotExpired,
  noteTables,
  originColumns,
  readCollectionRow,
  readNoteFactsRow,
  readOriginRow,
} from "./infospace-rows.ts";
import { createUsageMethods } from "./infospace-usage.ts";
import { joinQueries, readIntactRows, type Sql, type SqlQuery, type SqlRow, splitIntoBatches, sql } from "./sql.ts";

type ListMethods = Pick<InfospaceStore, "list" | "count" | "mark" | "contents">;

/** What there is, for whom. */
function createListMethods(db: Sql, now: () => Date): ListMethods {
  function list(query: ResourceQuery & { readonly kind: "note" }): Promise<readonly NoteFacts[]>;
  function list(query: ResourceQuery & { readonly kind: "collection" }): Promise<readonly Collection[]>;
  async function list(query: ResourceQuery): Promise<readonly NoteFacts[] | readonly Collection[]> {
    const { kind, before, limit } = query;
    const { alias, columns, tables } = kinds[kind];
    const all = conditions(query, now().toISOString());
    if (before !== undefined) all.push(sql`${alias}.id < ${before}`);
    const rows = await db.all(sql`
      select ${columns} from ${tables} where ${joinQueries(all, " and ")}
      order by ${alias}.id desc limit ${Math.max(0, Math.trunc(limit))}`);
    return kind === "note" ? readIntactRows(rows, readNoteFactsRow) : readIntactRows(rows, readCollectionRow);
  }

  /** The notes within reach, page by page: a statement over all of them would keep everybody waiting. */
  async function* pageNotes(whose: OwnerScope): AsyncGenerator<readonly SqlRow[]> {
    const at = now().toISOString();
    const columns = sql`n.id, n.part_of, n.hash, n.name, n.properties, n.origin, n.sources, n.expires_at`;
    for (const { id: owner } of await db.all(selectOwners(whose))) {
      for (const isPart of [false, true]) {
        for (let last: SqlRow | undefined; ; ) {
          const part = Number(last?.part_of ?? 0);
          const after = isPart
            ? sql`(n.part_of > ${part} or n.part_of = ${part} and n.id > ${Number(last?.id ?? 0)})`
            : sql`n.part_of is null and n.id > ${Number(last?.id ?? 0)}`;
          const rows = await db.all(sql`
            select ${columns} from notes n where n.owner = ${Number(owner)} and ${after}
            order by n.part_of, n.id limit ${PAGE}`);
          yield rows.filter(({ expires_at }) => expires_at === null || String(expires_at) > at);
          last = rows.at(-1);
          if (rows.length < PAGE) break;
        }
      }
    }
  }

  /** The notes that a collection holds, page by page. */
  async function* pageMembers(collection: number): AsyncGenerator<readonly SqlRow[]> {
    const at = now().toISOString();
    const held = sql`collections c join members m on m.collection = c.id and m.version = c.version`;
    const these = sql`c.id = ${collection} and ${collectionNotExpired(at)}`;
    const [end] = await db.all(sql`select max(m.position) as furthest from ${held} where ${these}`);
    for (let from = 0; end?.furthest !== null && from <= Number(end?.furthest); from += PAGE) {
      yield await db.all(sql`
        select n.id, n.hash, n.name, n.properties from ${held} join notes n on ${runHasNote}
        where ${these} and m.position >= ${from} and m.position < ${from + PAGE} and ${noteNotExpired(at)}`);
    }
  }

  /** Whether what came from each of these origins is allowed. Asked once for each. */
  async function checkOrigins(
    rows: readonly SqlRow[],
    answers: Map<string, boolean>,
    allows: (origin: NoteOrigin) => boolean,
  ): Promise<ReadonlyMap<string, boolean>> {
    const fresh = new Map(rows.map((row) => [originKey(row), row] as const).filter(([key]) => !answers.has(key)));
    for (const some of splitIntoBatches([...fresh.values()])) {
      const origins = await db.all(sql`
        select o.id, ${originColumns}, null as sources from origins o
        where o.id in (${joinIds(some.map(({ origin }) => Number(origin)))})`);
      const found = new Map(origins.map((row) => [Number(row.id), row]));
      for (const row of some) {
        const origin = found.get(Number(row.origin));
        const sources = row.sources ?? null;
        const isAllowed = origin !== undefined && allows(readOriginRow({ ...origin, sources }, "an origin"));
        answers.set(originKey(row), isAllowed);
      }
    }
    return answers;
  }

  return {
    list,
    async count(query) {
      const all = conditions(query, now().toISOString());
      const [row] = await db.all(sql`
        select count(*) as n from ${kinds[query.kind].tables} where ${joinQueries(all, " and ")}`);
      return Number(row?.n);
    },
    async mark(of) {
      // A note of it may be of whomever, so every change counts.
      if ("collection" in of) {
        const [row] = await db.all(sql`select last from resource_ids where kind = 'revision'`);
        return String(row?.last);
      }
      const at = now().toISOString();
      const rows = await db.all(sql`
        select w.key, w.revision,
          (select max(n.expires_at) from notes n where n.owner = w.id and n.expires_at <= ${at}) as notes_until,
          (select max(c.expires_at) from collections c where c.owner = w.id and c.expires_at <= ${at}) as collections_until
        from owners w where w.key in (${joinOwnerKeys(of)}) order by w.key`);
      // What expires is gone without a change.
      return JSON.stringify(
        rows.map((row) => [row.key, row.revision, row.notes_until, row.collections_until].map(String)),
      );
    },
    async contents(of, { allows = () => true } = {}) {
      const found = new Map<number, string>();
      const answers = new Map<string, boolean>();
      for await (const rows of "collection" in of ? pageMembers(of.collection) : pageNotes(of)) {
        const known = "collection" in of ? undefined : await checkOrigins(rows, answers, allows);
        for (const row of rows) if (known?.get(originKey(row)) !== false) found.set(Number(row.id), toState(row));
      }
      return found;
    },
  };
}

/** How many notes one statement looks at. */
const PAGE = 2_000;

const kinds = {
  note: { alias: sql`n`, columns: noteColumns, tables: noteTables, isThere: noteNotExpired },
  collection: {
    alias: sql`c`,
    columns: collectionColumns,
    tables: collectionTables,
    isThere: collectionNotExpired,
  },
};

function conditions(query: Omit<ResourceQuery, "limit" | "before">, now: string): SqlQuery[] {
  const { kind, whose, name, tenant, session, action, callId, saved, parts = false } = query;
  const { alias, isThere } = kinds[kind];
  const all = [isThere(now)];
  if (whose !== undefined) all.push(sql`${alias}.owner in (${selectOwners(whose)})`);
  if (name !== undefined) all.push(sql`${alias}.name = ${escapeText(name)}`);
  if (tenant !== undefined) all.push(sql`o.tenant = ${escapeText(tenant)}`);
  if (session !== undefined) all.push(sql`o.session = ${escapeText(session)}`);
  if (action !== undefined) all.push(sql`o.action = ${escapeText(action)}`);
  if (callId !== undefined) all.push(sql`o.call_id = ${escapeText(callId)}`);
  if (saved !== undefined) all.push(sql`${alias}.expires_at is ${saved ? sql`null` : sql`not null`}`);
  if (kind === "note" && !parts) all.push(sql`n.part_of is null`);
  return all;
}

function originKey({ origin, sources }: SqlRow): string {
  return `${origin} ${sources ?? ""}`;
}

function toState({ hash, name, properties }: SqlRow): string {
  return name === null && properties === null ? String(hash) : [hash, name, properties].map(String).join("\n");
}

function selectOwners(whose: OwnerScope): SqlQuery {
  return sql`select id from owners where key in (${joinOwnerKeys(whose)})`;
}

function joinOwnerKeys(whose: OwnerScope): SqlQuery {
  const keys = noteVisibilities.map((reach) => sql`${ownerKey(reach, whose)}`);
  return joinQueries(keys, ", ");
}

/** Notes and collections in SQL. Without a quota nothing is refused; what is used is counted all the same. */
export function createSqlInfospaceStore(db: Sql, now: () => Date, quota?: Quota): InfospaceStore {
  return {
    ...createNoteMethods(db, now, quota),
    ...createCollectionMethods(db, now, quota),
    ...createMemberMethods(db, now, quota),
    ...createRemovalMethods(db, now),
    ...createListMethods(db, now),
    ...createSourceMethods(db, now),
    ...createUsageMethods(db),
    limitedTo: (next) => createSqlInfospaceStore(db, now, next),
  };
}
