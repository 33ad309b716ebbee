import type { UsageStore } from "../policy/budget.ts";
import { joinQueries, type Sql, sql } from "./sql.ts";

type Charge = Parameters<UsageStore["charge"]>[0][number];

/** The accounts of budgets in SQL. Accounts that were never charged are left out of what is read. */
export function createSqlUsageStore(db: Sql, now: () => Date): UsageStore {
  return {
    async read(keys) {
      if (keys.length === 0) return new Map();
      const list = joinQueries(
        keys.map((key) => sql`${key}`),
        ", ",
      );
      const rows = await db.all(sql`select key, calls, ms, bytes from usage where key in (${list})`);
      return new Map(
        rows.map((row) => [
          String(row.key),
          { calls: Number(row.calls), ms: Number(row.ms), bytes: Number(row.bytes) },
        ]),
      );
    },
    async charge(entries) {
      const at = now().toISOString();
      try {
        await db.transaction(async (tx) => {
          for (const entry of sortByKey(entries)) {
            if (!(await countCall(tx, entry, at))) throw new BudgetExhausted(entry.key);
          }
        });
        return { ok: true };
      } catch (thrown) {
        if (thrown instanceof BudgetExhausted) return { ok: false, key: thrown.key };
        throw thrown;
      }
    },
    async settle(keys, ms, bytes) {
      if (keys.length === 0) return;
      const at = now().toISOString();
      const rows = [...new Set(keys)].sort().map((key) => sql`(${key}, 0, ${Math.round(ms)}, ${bytes}, ${at})`);
      await db.all(sql`
        insert into usage (key, calls, ms, bytes, updated_at) values ${joinQueries(rows, ", ")}
        on conflict (key) do update
        set ms = usage.ms + excluded.ms, bytes = usage.bytes + excluded.bytes, updated_at = excluded.updated_at`);
    },
  };
}

/** Leaves the transaction, so that what was counted before it is undone. */
class BudgetExhausted extends Error {
  readonly key: string;

  constructor(key: string) {
    super(`${key} allows no more calls`);
    this.key = key;
  }
}

// Two writers that lock the same keys in different orders could wait for each other.
function sortByKey(entries: readonly Charge[]): readonly Charge[] {
  return entries.toSorted((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
}

async function countCall(tx: Sql, { key, maxCalls }: Charge, at: string): Promise<boolean> {
  if (maxCalls !== undefined && maxCalls < 1) return false;
  const limit = maxCalls === undefined ? sql`` : sql`where usage.calls < ${maxCalls}`;
  const rows = await tx.all(sql`
    insert into usage (key, calls, ms, bytes, updated_at) values (${key}, 1, 0, 0, ${at})
    on conflict (key) do update set calls = usage.calls + 1, updated_at = excluded.updated_at ${limit}
    returning calls`);
  return rows.length > 0;
}
