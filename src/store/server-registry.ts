import type { JsonObject } from "../core/json.ts";
import type { RegistryStore, RegistrySyncState } from "../mcp/install/registry-store.ts";
import { joinQueries, type Sql, type SqlRow, splitIntoBatches, sql } from "./sql.ts";
import { optionalField } from "./sql-rows.ts";

/** Copies of registries in SQL: one row per server, and one for the sync state. */
export const createSqlRegistryStore = (db: Sql): RegistryStore => ({
  async getSyncState(registry) {
    const [row] = await db.all(sql`
        select synced_at, full_at, updated_since, cursor from registry_marks where registry = ${registry}`);
    if (row === undefined) return undefined;
    const toDate = (value: SqlRow[string]): Date => new Date(String(value));
    return {
      ...optionalField("syncedAt", row.synced_at, toDate),
      ...optionalField("fullAt", row.full_at, toDate),
      ...optionalField("updatedSince", row.updated_since, String),
      ...optionalField("cursor", row.cursor, String),
    };
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
    if (row === undefined) return undefined;
    return { ...toServerLine(row), entry: JSON.parse(String(row.entry)) as JsonObject };
  },
  write: (registry, { servers, gone, seenAt, mark, forgetBefore }) =>
    db.transaction(async (tx) => {
      const seen = seenAt.toISOString();
      for (const batch of splitIntoBatches(servers)) {
        const rows = batch.map(({ name, version, status, title, description, entry }) => {
          const text = JSON.stringify(entry);
          return sql`(${registry}, ${name}, ${version}, ${status}, ${title}, ${description}, ${seen}, ${text})`;
        });
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
});

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

const toServerLine = (row: SqlRow) => ({
  name: String(row.name),
  version: String(row.version),
  status: String(row.status),
  title: String(row.title),
  description: String(row.description),
});
