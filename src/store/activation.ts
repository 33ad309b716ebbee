import type { ActivationStore } from "../activation/activation-store.ts";
import { type ActionUse, type ActionUseStore, mergeUses } from "../activation/usage-tracker.ts";
import { bindList, joinQueries, type Sql, type SqlRow, sql } from "./sql.ts";

/** Uses of actions in SQL: one row per owner and action, as of the last use. */
export const createSqlActionUseStore = (db: Sql): ActionUseStore => ({
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
    const names = bindList(sums.keys());
    // The sum is made here because not every engine can raise to a power.
    await db.transaction(async (tx) => {
      const known = await tx.all(sql`
        select action, weight, at from action_use where owner = ${owner} and action in (${names})`);
      for (const row of known) include(toActionUse(row));
      const rows = [...sums.values()].map(
        (use) => sql`(${owner}, ${use.action}, ${use.weight}, ${use.at.toISOString()})`,
      );
      await tx.all(sql`
          insert into action_use (owner, action, weight, at) values ${joinQueries(rows, ", ")}
          on conflict (owner, action) do update set weight = excluded.weight, at = excluded.at`);
    });
  },
});

const toActionUse = (row: SqlRow): ActionUse => ({
  action: String(row.action),
  weight: Number(row.weight),
  at: new Date(String(row.at)),
});

/** Lists of activated actions in SQL. `prune` removes the lists to which no name was added since then. */
export const createSqlActivationStore = (
  db: Sql,
  now: () => Date,
): ActivationStore & { prune(before: Date): Promise<void> } => ({
  async read(shelf) {
    const rows = await db.all(sql`select name from shelves where shelf = ${shelf} order by position`);
    return rows.map((row) => String(row.name));
  },
  async put(shelf, names) {
    const wanted = [...new Set(names)];
    if (wanted.length === 0) return [];
    const at = now().toISOString();
    return db.transaction(async (tx) => {
      const [last] = await tx.all(sql`select max(position) as position from shelves where shelf = ${shelf}`);
      const from = Number(last?.position ?? 0) + 1;
      const rows = wanted.map((name, index) => sql`(${shelf}, ${from + index}, ${name}, ${at})`);
      const added = await tx.all(sql`
          insert into shelves (shelf, position, name, put_at) values ${joinQueries(rows, ", ")}
          on conflict (shelf, name) do nothing returning name`);
      const addedNames = new Set(added.map((row) => String(row.name)));
      return wanted.filter((name) => addedNames.has(name));
    });
  },
  async prune(before) {
    await db.all(sql`
      delete from shelves where shelf in (
        select shelf from shelves group by shelf having max(put_at) < ${before.toISOString()})`);
  },
});
