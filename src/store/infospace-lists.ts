import type { InfospaceStore, ResourceQuery, Whose } from "../infospace/infospace-store.ts";
import { type Collection, type NoteFacts, reaches } from "../infospace/note.ts";
import { readable } from "./columns.ts";
import { ownerKey } from "./infospace-change.ts";
import {
  collectionColumns,
  collectionIsThere,
  collectionOf,
  collectionTables,
  exact,
  factsOf,
  noteColumns,
  noteIsThere,
  noteTables,
} from "./infospace-rows.ts";
import { runHasNote } from "./infospace-runs.ts";
import { join, type Query, type Row, type Sql, sql } from "./sql.ts";

type ListMethods = Pick<InfospaceStore, "list" | "count" | "mark" | "contents">;

/** What there is, for whom. */
export function listMethods(db: Sql, now: () => Date): ListMethods {
  function list(query: ResourceQuery & { readonly kind: "note" }): Promise<readonly NoteFacts[]>;
  function list(query: ResourceQuery & { readonly kind: "collection" }): Promise<readonly Collection[]>;
  async function list(query: ResourceQuery): Promise<readonly NoteFacts[] | readonly Collection[]> {
    const { kind, before, limit } = query;
    const { alias, columns, tables } = kinds[kind];
    const all = conditions(query, now().toISOString());
    if (before !== undefined) all.push(sql`${alias}.id < ${before}`);
    const rows = await db.all(sql`
      select ${columns} from ${tables} where ${join(all, " and ")}
      order by ${alias}.id desc limit ${Math.max(0, Math.trunc(limit))}`);
    return kind === "note" ? readable(rows, factsOf) : readable(rows, collectionOf);
  }

  return {
    list,
    async count(query) {
      const all = conditions(query, now().toISOString());
      const [row] = await db.all(sql`
        select count(*) as n from ${kinds[query.kind].tables} where ${join(all, " and ")}`);
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
        from owners w where w.key in (${keysOf(of)}) order by w.key`);
      // What expires is gone without a change.
      return JSON.stringify(
        rows.map((row) => [row.key, row.revision, row.notes_until, row.collections_until].map(String)),
      );
    },
    async contents(of) {
      const at = now().toISOString();
      const rows = await db.all(
        "collection" in of
          ? sql`
            select n.id, n.hash, n.name, n.properties from collections c
            join members m on m.collection = c.id and m.version = c.version join notes n on ${runHasNote}
            where c.id = ${of.collection} and ${collectionIsThere(at)} and ${noteIsThere(at)}`
          : sql`
            select n.id, n.hash, n.name, n.properties from notes n
            where n.owner in (${ownersOf(of)}) and ${noteIsThere(at)}`,
      );
      return new Map(rows.map((row) => [Number(row.id), stateOf(row)]));
    },
  };
}

const kinds = {
  note: { alias: sql`n`, columns: noteColumns, tables: noteTables, isThere: noteIsThere },
  collection: {
    alias: sql`c`,
    columns: collectionColumns,
    tables: collectionTables,
    isThere: collectionIsThere,
  },
};

function conditions(query: Omit<ResourceQuery, "limit" | "before">, now: string): Query[] {
  const { kind, whose, name, tenant, session, action, callId, saved, parts = false } = query;
  const { alias, isThere } = kinds[kind];
  const all = [isThere(now)];
  if (whose !== undefined) all.push(sql`${alias}.owner in (${ownersOf(whose)})`);
  if (name !== undefined) all.push(sql`${alias}.name = ${exact(name)}`);
  if (tenant !== undefined) all.push(sql`o.tenant = ${exact(tenant)}`);
  if (session !== undefined) all.push(sql`o.session = ${exact(session)}`);
  if (action !== undefined) all.push(sql`o.action = ${exact(action)}`);
  if (callId !== undefined) all.push(sql`o.call_id = ${exact(callId)}`);
  if (saved !== undefined) all.push(sql`${alias}.expires_at is ${saved ? sql`null` : sql`not null`}`);
  if (kind === "note" && !parts) all.push(sql`n.part_of is null`);
  return all;
}

function stateOf({ hash, name, properties }: Row): string {
  return name === null && properties === null ? String(hash) : [hash, name, properties].map(String).join("\n");
}

function ownersOf(whose: Whose): Query {
  return sql`select id from owners where key in (${keysOf(whose)})`;
}

function keysOf(whose: Whose): Query {
  const keys = reaches.map((reach) => sql`${ownerKey(reach, whose)}`);
  return join(keys, ", ");
}
