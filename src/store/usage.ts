import { join, type Sql, sql } from "./sql.ts";

/** What was used under one key: a caller's budget, an action's quota. */
export interface Usage {
  readonly calls: number;
  readonly ms: number;
  readonly bytes: number;
}

export interface Charge {
  readonly key: string;
  /** Calls that the key allows in all. Absent: any number; the call is only counted. */
  readonly maxCalls?: number;
}

/** Counters shared by every process on the store. */
export interface UsageStore {
  /** Keys that were never charged are left out. */
  read(keys: readonly string[]): Promise<Map<string, Usage>>;
  /** Counts one call under every key, or under none and names the first key that allows no more. */
  charge(entries: readonly Charge[]): Promise<{ readonly ok: true } | { readonly ok: false; readonly key: string }>;
  /** Adds what a call took, once it is known. */
  settle(keys: readonly string[], ms: number, bytes: number): Promise<void>;
}

export function usageStore(db: Sql, now: () => Date): UsageStore {
  return {
    async read(keys) {
      if (keys.length === 0) return new Map();
      const list = join(
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
          for (const entry of inOneOrder(entries)) {
            if (!(await counted(tx, entry, at))) throw new Exhausted(entry.key);
          }
        });
        return { ok: true };
      } catch (thrown) {
        if (thrown instanceof Exhausted) return { ok: false, key: thrown.key };
        throw thrown;
      }
    },
    async settle(keys, ms, bytes) {
      if (keys.length === 0) return;
      const at = now().toISOString();
      const rows = [...new Set(keys)].sort().map((key) => sql`(${key}, 0, ${Math.round(ms)}, ${bytes}, ${at})`);
      await db.all(sql`
        insert into usage (key, calls, ms, bytes, updated_at) values ${join(rows, ", ")}
        on conflict (key) do update
        set ms = usage.ms + excluded.ms, bytes = usage.bytes + excluded.bytes, updated_at = excluded.updated_at`);
    },
  };
}

/** Leaves the transaction, so that what was counted before it is undone. */
class Exhausted extends Error {
  readonly key: string;

  constructor(key: string) {
    super(`${key} allows no more calls`);
    this.key = key;
  }
}

// Two writers that lock the same keys in different orders could wait for each other.
function inOneOrder(entries: readonly Charge[]): readonly Charge[] {
  return entries.toSorted((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
}

async function counted(tx: Sql, { key, maxCalls }: Charge, at: string): Promise<boolean> {
  if (maxCalls !== undefined && maxCalls < 1) return false;
  const limit = maxCalls === undefined ? sql`` : sql`where usage.calls < ${maxCalls}`;
  const rows = await tx.all(sql`
    insert into usage (key, calls, ms, bytes, updated_at) values (${key}, 1, 0, 0, ${at})
    on conflict (key) do update set calls = usage.calls + 1, updated_at = excluded.updated_at ${limit}
    returning calls`);
  return rows.length > 0;
}
