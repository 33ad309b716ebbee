import { toAccountKey, type UsageStore } from "../policy/budget.ts";
import { bindList, createWriteTag, joinQueries, type Sql, sql } from "./sql.ts";
import { readIntactRows, readJsonObject } from "./sql-rows.ts";

/** The accounts of budgets in SQL. Reading leaves out accounts that were never charged. */
export const createSqlUsageStore = (db: Sql, now: () => Date): UsageStore => ({
  async read(keys) {
    if (keys.length === 0) return new Map();
    const rows = await db.all(
      sql`select key, calls, ms, bytes, tokens, cost from usage where key in (${bindList(keys)})`,
    );
    return new Map(
      rows.map(({ key, calls, ms, bytes, tokens, cost }) => [
        String(key),
        {
          ...{ calls: Number(calls), ms: Number(ms), bytes: Number(bytes) },
          ...(Number(tokens) === 0 ? {} : { tokens: Number(tokens) }),
          ...(Number(cost) === 0 ? {} : { cost: Number(cost) }),
        },
      ]),
    );
  },
  async charge(entries) {
    const at = now().toISOString();
    // Two writers that lock the same keys in different orders could wait for each other.
    const sorted = entries.toSorted((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
    try {
      await db.transaction(async (tx) => {
        for (const { key, maxCalls } of sorted) {
          if (!(await countCall(tx, key, maxCalls, at))) throw new BudgetExhausted(key);
        }
      });
      return { ok: true };
    } catch (thrown) {
      if (thrown instanceof BudgetExhausted) return { ok: false, key: thrown.message };
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
  async addModelUsage(keys, { tokens, cost }) {
    if (keys.length === 0) return;
    const at = now().toISOString();
    const rows = [...new Set(keys)].sort().map((key) => sql`(${key}, 0, 0, 0, ${tokens}, ${cost}, ${at})`);
    await db.all(sql`
        insert into usage (key, calls, ms, bytes, tokens, cost, updated_at) values ${joinQueries(rows, ", ")}
        on conflict (key) do update
        set tokens = usage.tokens + excluded.tokens, cost = usage.cost + excluded.cost, updated_at = excluded.updated_at`);
  },
  async prune(before) {
    const unfinished = await db.all(sql`select id, session, caller from turns where state in ('running', 'suspended')`);
    // A damaged turn cannot be resumed, so it needs no account.
    const needed = readIntactRows(unfinished, (turn) => {
      const { actor } = readJsonObject<{ actor?: unknown }>(turn, "caller", `the turn ${turn.id}`);
      const ids = [String(turn.session), String(turn.id)];
      return [toAccountKey("turn", ids), toAccountKey("turn", ids, String(actor))];
    }).flat();
    // The account of calls without a turn lasts as long as the session, and so do those of sessions and tenants.
    await db.all(sql`
        delete from usage where updated_at < ${before.toISOString()} and key like 'turn:%' and key not like '%,""]'
          and key not in (${needed.length === 0 ? sql`''` : bindList(needed)})`);
  },
});

/** Thrown with the key of the account, to undo the calls counted before it. */
class BudgetExhausted extends Error {}

async function countCall(tx: Sql, key: string, maxCalls: number | undefined, at: string): Promise<boolean> {
  if (maxCalls !== undefined && maxCalls < 1) return false;
  const limit = maxCalls === undefined ? sql`` : sql`where usage.calls < ${maxCalls}`;
  return createWriteTag(tx)`
    insert into usage (key, calls, ms, bytes, updated_at) values (${key}, 1, 0, 0, ${at})
    on conflict (key) do update set calls = usage.calls + 1, updated_at = excluded.updated_at ${limit}
    returning calls`;
}
