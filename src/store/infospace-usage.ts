import type { OwnerScope } from "../infospace/infospace-store.ts";
import {
  findExcess,
  NOTE_OVERHEAD,
  type QuotaAmount,
  type QuotaScope,
  type QuotaUsage,
  quotaExceededError,
  quotaScopes,
} from "../infospace/quota.ts";
import type { Change } from "./infospace-changes.ts";
import { escapeText, unescapeColumn } from "./infospace-rows.ts";
import { bindList, joinQueries, type Sql, type SqlQuery, type SqlRow, sql } from "./sql.ts";
import { optionalField } from "./sql-rows.ts";

/** The scope that a note or collection counts for while it exists. Escaped as in the columns. */
type Payer = { readonly tenant: string; readonly user: string; readonly session: string };

/** Counts code points, as `length` does in SQL. */
export function countCharacters(text: string | null): number {
  let length = 0;
  for (const _ of text ?? "") length++;
  return length;
}

/** The size of a row of `notes n` or `collections n`, without content and history. */
const ownBytes = sql`length(coalesce(n.properties, '')) + ${NOTE_OVERHEAD}`;
export const toPayer = ({ tenant = "", user = "", session }: Omit<OwnerScope, "actor">): Payer => ({
  tenant: escapeText(tenant),
  user: escapeText(user),
  session: escapeText(session),
});

/** Adds to the usage of the payer. Throws `quota_exceeded` if it does not fit; the transaction then rolls back. */
export async function charge({ tx, quota }: Change, payer: Payer, amount: Partial<QuotaAmount>): Promise<void> {
  const { notes = 0, bytes = 0, rows = 0 } = amount;
  if (notes === 0 && bytes === 0 && rows === 0) return;
  const added = quotaScopes.map((scope) => sql`(${bindScopeKey(scope, payer)}, ${notes}, ${bytes}, ${rows})`);
  const used = await tx.all(sql`
    insert into infospace_use (scope, tenant, user_id, session, notes, bytes, row_count)
    values ${joinQueries(added, ", ")}
    on conflict (scope, tenant, user_id, session) do update set notes = infospace_use.notes + excluded.notes,
      bytes = infospace_use.bytes + excluded.bytes, row_count = infospace_use.row_count + excluded.row_count
    returning scope, notes, bytes, row_count`);
  if (notes < 0 || bytes < 0 || rows < 0) {
    await tx.all(sql`
      delete from infospace_use where notes = 0 and bytes = 0 and row_count = 0 and (${matchPayer(payer)})`);
  }
  if (quota === undefined) return;
  for (const scope of quotaScopes) {
    const row = used.find((each) => each.scope === scope);
    const excess = row && findExcess(quota, scope, toAmount(row), { notes, bytes, rows });
    if (excess !== undefined) throw quotaExceededError(excess);
  }
}

/** Subtracts the notes that match `which`, a condition on `notes n`. Call it before they are removed. */
export async function releaseNotes(change: Change, which: SqlQuery): Promise<void> {
  const own = await change.tx.all(sql`
    select n.origin, count(*) as notes, sum(n.bytes + ${ownBytes}) as bytes from notes n where ${which} group by n.origin`);
  const past = await change.tx.all(sql`
    select n.origin, 0 as notes, sum(h.bytes) as bytes
    from note_history h join notes n on n.id = h.note where ${which} group by n.origin`);
  for (const { origin, notes, bytes } of [...own, ...past]) {
    await release(change, Number(origin), { notes: Number(notes), bytes: Number(bytes) });
  }
}

/** Subtracts a collection. Call it before it is removed. */
export async function releaseCollection(change: Change, id: number): Promise<void> {
  const [row] = await change.tx.all(sql`
    select n.origin, ${ownBytes} as bytes, (select count(*) from members m where m.collection = n.id) as row_count
    from collections n where n.id = ${id}`);
  if (row === undefined) return;
  await release(change, Number(row.origin), { notes: 1, bytes: Number(row.bytes), rows: Number(row.row_count) });
}

export async function releaseRows(change: Change, id: number, rows: number): Promise<void> {
  const [row] = await change.tx.all(sql`select origin from collections where id = ${id}`);
  if (row !== undefined) await release(change, Number(row.origin), { rows });
}

async function release(change: Change, origin: number, amount: Partial<QuotaAmount>): Promise<void> {
  const { notes = 0, bytes = 0, rows = 0 } = amount;
  const [row] = await change.tx.all(sql`select tenant, user_id, session from origins where id = ${origin}`);
  if (row === undefined) return;
  const payer = { tenant: String(row.tenant), user: String(row.user_id), session: String(row.session) };
  await charge(change, payer, { notes: -notes, bytes: -bytes, rows: -rows });
}

export async function readUsage(db: Sql, of: OwnerScope | undefined): Promise<readonly QuotaUsage[]> {
  const wanted = of === undefined ? sql`scope = 'tenant'` : matchPayer(toPayer(of));
  const rows = await db.all(sql`select * from infospace_use where ${wanted} order by bytes desc, tenant`);
  return rows.map(toUsage).sort((one, other) => quotaScopes.indexOf(one.scope) - quotaScopes.indexOf(other.scope));
}

const bindScopeKey = (scope: QuotaScope, { tenant, user, session }: Payer): SqlQuery =>
  bindList([scope, tenant, scope === "tenant" ? "" : user, scope === "session" ? session : ""]);

function matchPayer(payer: Payer): SqlQuery {
  const keys = quotaScopes.map((scope) => sql`(scope, tenant, user_id, session) = (${bindScopeKey(scope, payer)})`);
  return joinQueries(keys, " or ");
}

function toUsage(row: SqlRow): QuotaUsage {
  const text = (column: string) => unescapeColumn(row, column, "usage");
  return {
    scope: String(row.scope) as QuotaScope,
    ...optionalField("tenant", row.tenant === "" ? null : row.tenant, () => text("tenant")),
    ...optionalField("user", row.user_id === "" ? null : row.user_id, () => text("user_id")),
    ...optionalField("session", row.session === "" ? null : row.session, () => text("session")),
    ...toAmount(row),
  };
}

const toAmount = (row: SqlRow): QuotaAmount => ({
  notes: Number(row.notes),
  bytes: Number(row.bytes),
  rows: Number(row.row_count),
});
