import type { ShelfStore } from "../activation/shelf-store.ts";
import { join, type Sql, sql } from "./sql.ts";

/** Shelves in SQL: one row a name. */
export function shelfStore(db: Sql, now: () => Date): ShelfStore {
  return {
    async read(shelf) {
      const rows = await db.all(sql`select name from shelves where shelf = ${shelf} order by position`);
      return rows.map((row) => String(row.name));
    },
    async put(shelf, names) {
      const wanted = [...new Set(names)];
      if (wanted.length === 0) return [];
      const at = now().toISOString();
      // Transactions do not read the same before they write, so no two give out the same position.
      return db.transaction(async (tx) => {
        const [last] = await tx.all(sql`select max(position) as position from shelves where shelf = ${shelf}`);
        const from = Number(last?.position ?? 0) + 1;
        const rows = wanted.map((name, index) => sql`(${shelf}, ${from + index}, ${name}, ${at})`);
        const added = await tx.all(sql`
          insert into shelves (shelf, position, name, put_at) values ${join(rows, ", ")}
          on conflict (shelf, name) do nothing returning name`);
        const there = new Set(added.map((row) => String(row.name)));
        return wanted.filter((name) => there.has(name));
      });
    },
  };
}
