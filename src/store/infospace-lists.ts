import type { InfospaceStore, ResourceQuery, Whose } from "../infospace/infospace-store.ts";
import { type Collection, type NoteFacts, type Origin, reaches } from "../infospace/note.ts";
import { readable } from "./columns.ts";
import { listed, ownerKey } from "./infospace-change.ts";
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
  originColumns,
  originOf,
} from "./infospace-rows.ts";
import { runHasNote } from "./infospace-runs.ts";
import { portions } from "./portions.ts";
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

  /** Of the origins of notes, each with what is said of single notes, those that are allowed. */
  async function allowedOrigins(
    rows: readonly Row[],
    allows: (origin: Origin) => boolean,
  ): Promise<ReadonlySet<string>> {
    const own = new Map(rows.map((row) => [originKey(row), row] as const));
    const found = new Map<number, Row>();
    for (const ids of portions([...new Set(rows.map(({ origin }) => Number(origin)))])) {
      const some = await db.all(sql`
        select o.id, ${originColumns}, null as sources from origins o where o.id in (${listed(ids)})`);
      for (const row of some) found.set(Number(row.id), row);
    }
    const all = [...own].filter(([, { origin, sources }]) => {
      const row = found.get(Number(origin));
      return row !== undefined && allows(originOf({ ...row, sources: sources ?? null }, "an origin"));
    });
    return new Set(all.map(([key]) => key));
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
    async contents(of, { allows = () => true } = {}) {
      const at = now().toISOString();
      const rows = await db.all(
        "collection" in of
          ? sql`
            select n.id, n.hash, n.name, n.properties, null as origin, null as sources from collections c
            join members m on m.collection = c.id and m.version = c.version join notes n on ${runHasNote}
            where c.id = ${of.collection} and ${collectionIsThere(at)} and ${noteIsThere(at)}`
          : sql`
            select n.id, n.hash, n.name, n.properties, n.origin, n.sources from notes n
            where n.owner in (${ownersOf(of)}) and ${noteIsThere(at)}`,
      );
      if ("collection" in of) return new Map(rows.map((row) => [Number(row.id), stateOf(row)]));
      const seen = await allowedOrigins(rows, allows);
      return new Map(rows.filter((row) => seen.has(originKey(row))).map((row) => [Number(row.id), stateOf(row)]));
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

function originKey({ origin, sources }: Row): string {
  return `${origin} ${sources ?? ""}`;
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
