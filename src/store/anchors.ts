import type { AnchorStore } from "../distribution/anchors.ts";
import { bindList, joinQueries, type Sql, splitIntoBatches, sql } from "./sql.ts";

/** Anchored values in SQL: one row per token, as JSON. */
export const createSqlAnchorStore = (db: Sql, now: () => Date): AnchorStore => ({
  async put(owner, values) {
    const at = now().toISOString();
    const rows = [...values].map(([token, value]) => sql`(${owner}, ${token}, ${value}, ${at})`);
    try {
      await db.transaction(async (tx) => {
        for (const list of splitIntoBatches(rows)) {
          const added = await tx.all(sql`
              insert into anchors (owner, token, value, made_at) values ${joinQueries(list, ", ")}
              on conflict (owner, token) do nothing returning token`);
          if (added.length < list.length) throw new TokenTaken();
        }
      });
      return true;
    } catch (thrown) {
      if (thrown instanceof TokenTaken) return false;
      throw thrown;
    }
  },
  async read(owner, tokens) {
    const values = new Map<string, string>();
    for (const list of splitIntoBatches(tokens)) {
      const rows = await db.all(sql`
        select token, value from anchors where owner = ${owner} and token in (${bindList(list)})`);
      for (const { token, value } of rows) values.set(String(token), String(value));
    }
    return values;
  },
  async prune(before) {
    await db.all(sql`delete from anchors where made_at < ${before.toISOString()}`);
  },
});

/** Thrown to roll back the transaction. */
class TokenTaken extends Error {}
