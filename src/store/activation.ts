import type { ActivationStore } from "../activation/activation-store.ts";
import { type ActionUse, type ActionUseStore, mergeUses } from "../activation/usage-tracker.ts";
import { joinQueries, type Sql, type SqlRow, sql } from "./sql.ts";

/** What is used in SQL: one row an owner and action, as it stood when it was last used. */
export function createSqlActionUseStore(db: Sql): ActionUseStore {
  return {
    async read(owner) {
      return (await db.all(sql`select action, weight, at from action_use where owner = ${owner}`)).map(toActionUse);
    },
    async add(owner, uses) {
      const sums = new Map<string, ActionUse>();
      const include = (use: ActionUse): void => {
        const before = sums.get(use.action);
        sums.set(use.action, before === undefined ? use : mergeUses(before, use));
      };
      for (const use of uses) include(use);
      if (sums.size === 0) return;
      const names = joinQueries(
        [...sums.keys()].map((action) => sql`${action}`),
        ", ",
      );
      // Not every engine can raise to a power, so the sum is made here; transactions do not read the same before they write.
      await db.transaction(async (tx) => {
        const known = await tx.all(
          sql`select action, weight, at from action_use where owner = ${owner} and action in (${names})`,
        );
        for (const row of known) include(toActionUse(row));
        const rows = [...sums.values()].map(
          ({ action, weight, at }) => sql`(${owner}, ${action}, ${weight}, ${at.toISOString()})`,
        );
        await tx.all(sql`
          insert into action_use (owner, action, weight, at) values ${joinQueries(rows, ", ")}
          on conflict (owner, action) do update set weight = excluded.weight, at = excluded.at`);
      });
    },
  };
}

function toActionUse(row: SqlRow): ActionUse {
  return { action: String(row.action), weight: Number(row.weight), at: new Date(String(row.at)) };
}

/** Shelves in SQL: one row a name. */
export function createSqlActivationStore(db: Sql, now: () => Date): ActivationStore {
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
          insert into shelves (shelf, position, name, put_at) values ${joinQueries(rows, ", ")}
          on conflict (shelf, name) do nothing returning name`);
        const there = new Set(added.map((row) => String(row.name)));
        return wanted.filter((name) => there.has(name));
      });
    },
  };
}
