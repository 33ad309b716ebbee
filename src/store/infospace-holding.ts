import { type Reach, reaches } from "../infospace/note.ts";
import { type Change, forget, ownerId, touch } from "./infospace-change.ts";
import { exact, ownerOf } from "./infospace-rows.ts";
import { join, type Query, sql } from "./sql.ts";

/** No note among those that `ids` selects is forgotten before that time; absent: none is forgotten at all. */
export async function keepUntil(change: Change, ids: Query, expiresAt: string | undefined): Promise<void> {
  const sooner =
    expiresAt === undefined
      ? sql`n.expires_at is not null`
      : sql`n.expires_at is not null and n.expires_at < ${expiresAt}`;
  const these = sql`n.id in (${ids}) and ${sooner}`;
  await touch(change, sql`select n.owner from notes n where ${these}`);
  await change.tx.all(sql`update notes as n set expires_at = ${expiresAt ?? null} where ${these}`);
}

/** Every note among those that `ids` selects reaches at least as far. One that reaches farther is left alone. */
export async function widenTo(change: Change, ids: Query, reach: Reach): Promise<void> {
  const narrower = reaches.slice(0, reaches.indexOf(reach)).map((each) => sql`${each}`);
  if (narrower.length === 0) return;
  const these = sql`
    n.id in (${ids}) and exists (select 1 from owners w where w.id = n.owner and w.reach in (${join(narrower, ", ")}))`;
  // Whom it reaches then is up to where it came from: of a thousand origins, few differ in that.
  const kinds = await change.tx.all(sql`
    select o.tenant, o.user_id, o.actor, min(o.session) as session
    from notes n join origins o on o.id = n.origin where ${these} group by o.tenant, o.user_id, o.actor`);
  if (kinds.length === 0) return;
  const before = await change.tx.all(sql`select distinct n.owner from notes n where ${these}`);
  for (const kind of kinds) {
    const who = ownerOf(kind, "an origin");
    const owner = await ownerId(change, reach, who);
    await change.tx.all(sql`
      update notes as n set owner = ${owner}
      where ${these} and exists (
        select 1 from origins o where o.id = n.origin
          and o.tenant = ${exact(who.tenant ?? "")} and o.user_id = ${exact(who.user ?? "")}
          and o.actor = ${exact(who.actor)})`);
  }
  await forget(change, { origins: new Set(), owners: new Set(before.map((row) => Number(row.owner))) });
}
