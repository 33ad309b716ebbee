import type { ProcessStore } from "../mcp/hub/process-store.ts";
import { type Sql, sql } from "./sql.ts";

/** Started processes in SQL: one row for each that has not been seen to end. */
export function processStore(db: Sql): ProcessStore {
  return {
    async add({ server, pid, startedAt, ownerPid, host }) {
      await db.all(sql`
        insert into processes (host, pid, started_at, server, owner_pid)
        values (${host}, ${pid}, ${startedAt}, ${server}, ${ownerPid})
        on conflict (host, pid, started_at) do update set server = excluded.server, owner_pid = excluded.owner_pid`);
    },
    async remove({ host, pid, startedAt }) {
      await db.all(sql`delete from processes where host = ${host} and pid = ${pid} and started_at = ${startedAt}`);
    },
    async all() {
      const rows = await db.all(sql`
        select server, pid, started_at, owner_pid, host from processes order by host, pid, started_at`);
      return rows.map((row) => ({
        server: String(row.server),
        pid: Number(row.pid),
        startedAt: String(row.started_at),
        ownerPid: Number(row.owner_pid),
        host: String(row.host),
      }));
    },
  };
}
