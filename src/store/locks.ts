import type { LockStore } from "../search/semantic/vector-build.ts";
import { createWriteTag, type Sql, sql } from "./sql.ts";

/** Locks in SQL: one row per held lock. */
export function createSqlLockStore(db: Sql): LockStore {
  const write = createWriteTag(db);
  return {
    async take(name, { id, pid, host, leaseUntil }, isOver) {
      const until = leaseUntil.toISOString();
      const [row] = await db.all(sql`select holder, pid, host, lease_until from locks where name = ${name}`);
      if (row === undefined) {
        return write`
          insert into locks (name, holder, pid, host, lease_until) values (${name}, ${id}, ${pid}, ${host}, ${until})
          on conflict (name) do nothing returning holder`;
      }
      const holder = String(row.holder);
      const lease = new Date(String(row.lease_until));
      if (!isOver({ id: holder, pid: Number(row.pid), host: String(row.host), leaseUntil: lease })) return false;
      // Only if unchanged: another process may have taken it, or the holder may have renewed it.
      return write`
        update locks set holder = ${id}, pid = ${pid}, host = ${host}, lease_until = ${until}
        where name = ${name} and holder = ${holder} and lease_until = ${lease.toISOString()} returning holder`;
    },
    renew: async (name, { id, leaseUntil }) => write`
      update locks set lease_until = ${leaseUntil.toISOString()} where name = ${name} and holder = ${id}
      returning holder`,
    async release(name, id) {
      await db.all(sql`delete from locks where name = ${name} and holder = ${id}`);
    },
  };
}
