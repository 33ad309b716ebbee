import { type ActionUse, type ActionUseStore, together } from "../activation/action-use.ts";
import { join, type Row, type Sql, sql } from "./sql.ts";

/** What is used in SQL: one row an owner and action, as it stood when it was last used. */
export function actionUseStore(db: Sql): ActionUseStore {
  return {
    async read(owner) {
      return (await db.all(sql`select action, weight, at from action_use where owner = ${owner}`)).map(useOf);
    },
    async add(owner, uses) {
      const sums = new Map<string, ActionUse>();
      const include = (use: ActionUse): void => {
        const before = sums.get(use.action);
        sums.set(use.action, before === undefined ? use : together(before, use));
      };
      for (const use of uses) include(use);
      if (sums.size === 0) return;
      const names = join(
        [...sums.keys()].map((action) => sql`${action}`),
        ", ",
      );
      // Not every engine can raise to a power, so the sum is made here; transactions do not read the same before they write.
      await db.transaction(async (tx) => {
        const known = await tx.all(
          sql`select action, weight, at from action_use where owner = ${owner} and action in (${names})`,
        );
        for (const row of known) include(useOf(row));
        const rows = [...sums.values()].map(
          ({ action, weight, at }) => sql`(${owner}, ${action}, ${weight}, ${at.toISOString()})`,
        );
        await tx.all(sql`
          insert into action_use (owner, action, weight, at) values ${join(rows, ", ")}
          on conflict (owner, action) do update set weight = excluded.weight, at = excluded.at`);
      });
    },
  };
}

function useOf(row: Row): ActionUse {
  return { action: String(row.action), weight: Number(row.weight), at: new Date(String(row.at)) };
}
