import type { LeaseHolder } from "../core/lease.ts";
import type { LockStore } from "../search/semantic/vector-build.ts";
import { type Sql, type SqlRow, sql } from "./sql.ts";

/** Locks in SQL: one row for each that is held. */
export function createSqlLockStore(db: Sql): LockStore {
  return {
    async take(name, { id, pid, host, leaseUntil }, isOver) {
      const until = leaseUntil.toISOString();
      const [row] = await db.all(sql`select holder, pid, host, lease_until from locks where name = ${name}`);
      if (row === undefined) {
        const taken = await db.all(sql`
          insert into locks (name, holder, pid, host, lease_until)
          values (${name}, ${id}, ${pid}, ${host}, ${until})
          on conflict (name) do nothing returning holder`);
        return taken.length > 0;
      }
      const other = toLockHolder(row);
      if (!isOver(other)) return false;
      // Only as it was read: another may have been quicker, or the holder may have come back.
      const taken = await db.all(sql`
        update locks set holder = ${id}, pid = ${pid}, host = ${host}, lease_until = ${until}
        where name = ${name} and holder = ${other.id} and lease_until = ${other.leaseUntil.toISOString()}
        returning holder`);
      return taken.length > 0;
    },
    async renew(name, { id, leaseUntil }) {
      const kept = await db.all(sql`
        update locks set lease_until = ${leaseUntil.toISOString()} where name = ${name} and holder = ${id}
        returning holder`);
      return kept.length > 0;
    },
    async release(name, id) {
      await db.all(sql`delete from locks where name = ${name} and holder = ${id}`);
    },
  };
}

function toLockHolder(row: SqlRow): LeaseHolder {
  return {
    id: String(row.holder),
    pid: Number(row.pid),
    host: String(row.host),
    leaseUntil: new Date(String(row.lease_until)),
  };
}
