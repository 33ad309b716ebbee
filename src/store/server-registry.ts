import type { JsonObject } from "../core/json.ts";
import type { RegistryStore, RegistrySyncState, StoredServer } from "../mcp/install/registry-store.ts";
import { joinQueries, type Sql, type SqlRow, sql } from "./sql.ts";

// Engines bound the values of one statement.
const PORTION = 100;

/** Copies of registries in SQL: one row a server, one row for how far the copy has come. */
export function createSqlRegistryStore(db: Sql): RegistryStore {
  return {
    async getSyncState(registry) {
      const [row] = await db.all(sql`
        select synced_at, full_at, updated_since, cursor from registry_marks where registry = ${registry}`);
      return row === undefined ? undefined : toSyncMark(row);
    },
    async listServers(registry) {
      const rows = await db.all(sql`
        select name, version, status, title, description from registry_servers
        where registry = ${registry} order by name`);
      return rows.map(toServerLine);
    },
    async find(registry, name) {
      const [row] = await db.all(sql`
        select name, version, status, title, description, entry from registry_servers
        where registry = ${registry} and name = ${name}`);
      return row === undefined
        ? undefined
        : { ...toServerLine(row), entry: JSON.parse(String(row.entry)) as JsonObject };
    },
    write: (registry, { servers, gone, seenAt, mark, forgetBefore }) =>
      db.transaction(async (tx) => {
        for (let from = 0; from < servers.length; from += PORTION) {
          const rows = servers.slice(from, from + PORTION).map((server) => toInsertRow(registry, server, seenAt));
          await tx.all(sql`
            insert into registry_servers (registry, name, version, status, title, description, seen_at, entry)
            values ${joinQueries(rows, ", ")}
            on conflict (registry, name) do update set
              version = excluded.version, status = excluded.status, title = excluded.title,
              description = excluded.description, seen_at = excluded.seen_at, entry = excluded.entry`);
        }
        for (const name of gone)
          await tx.all(sql`delete from registry_servers where registry = ${registry} and name = ${name}`);
        if (forgetBefore !== undefined)
          await tx.all(sql`
            delete from registry_servers where registry = ${registry} and seen_at < ${forgetBefore.toISOString()}`);
        await putMark(tx, registry, mark);
      }),
  };
}

async function putMark(tx: Sql, registry: string, mark: RegistrySyncState): Promise<void> {
  const syncedAt = mark.syncedAt?.toISOString() ?? null;
  const fullAt = mark.fullAt?.toISOString() ?? null;
  await tx.all(sql`
    insert into registry_marks (registry, synced_at, full_at, updated_since, cursor)
    values (${registry}, ${syncedAt}, ${fullAt}, ${mark.updatedSince ?? null}, ${mark.cursor ?? null})
    on conflict (registry) do update set
      synced_at = excluded.synced_at, full_at = excluded.full_at, updated_since = excluded.updated_since,
      cursor = excluded.cursor`);
}

function toInsertRow(
  registry: string,
  { name, version, status, title, description, entry }: StoredServer,
  seenAt: Date,
) {
  const seen = seenAt.toISOString();
  return sql`(
    ${registry}, ${name}, ${version}, ${status}, ${title}, ${description}, ${seen}, ${JSON.stringify(entry)})`;
}

function toServerLine(row: SqlRow) {
  return {
    name: String(row.name),
    version: String(row.version),
    status: String(row.status),
    title: String(row.title),
    description: String(row.description),
  };
}

function toSyncMark({ synced_at, full_at, updated_since, cursor }: SqlRow): RegistrySyncState {
  return {
    ...(synced_at == null ? {} : { syncedAt: new Date(String(synced_at)) }),
    ...(full_at == null ? {} : { fullAt: new Date(String(full_at)) }),
    ...(updated_since == null ? {} : { updatedSince: String(updated_since) }),
    ...(cursor == null ? {} : { cursor: String(cursor) }),
  };
}
