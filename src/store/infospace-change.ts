import type { Whose } from "../infospace/infospace-store.ts";
import type { Origin, Reach } from "../infospace/note.ts";
import type { Quota } from "../infospace/quota.ts";
import { exact, sourcesText } from "./infospace-rows.ts";
import { portions } from "./portions.ts";
import { join, type Query, type Sql, sql } from "./sql.ts";

/** One change of notes and collections, in one transaction. */
export interface Change {
  readonly tx: Sql;
  readonly now: string;
  /** Greater than that of every change before. */
  readonly revision: number;
  /** Absent: nothing is refused. */
  readonly quota: Quota | undefined;
}

/**
 * Changes take turns: the first statement of each makes the next one wait, also on engines that let several write at
 * once. So what a change has read stays as it was until it ends.
 */
export function changing<T>(db: Sql, now: () => Date, work: (change: Change) => Promise<T>, quota?: Quota): Promise<T> {
  return db.transaction(async (tx) => {
    const revision = await nextIds(tx, "revision", 1);
    return work({ tx, revision, quota, now: now().toISOString() });
  });
}

/** The first of `count` ids that were never used. */
export async function nextIds(
  tx: Sql,
  kind: "note" | "collection" | "origin" | "owner" | "revision",
  count: number,
): Promise<number> {
  const [row] = await tx.all(sql`update resource_ids set last = last + ${count} where kind = ${kind} returning last`);
  return Number(row?.last) - count + 1;
}

/** The row of an origin: one for all that one call made at one time. */
export async function originId({ tx }: Change, origin: Origin): Promise<number> {
  const { tenant = "", user = "", session, actor, turn, action, callId, at } = origin;
  const sources = sourcesText(origin.sources);
  const [known] = await tx.all(sql`
    select id from origins
    where call_id = ${exact(callId)} and made_at = ${at} and action = ${exact(action)} and tenant = ${exact(tenant)}
      and user_id = ${exact(user)} and session = ${exact(session)} and actor = ${exact(actor)}
      and ${turn === undefined ? sql`turn is null` : sql`turn = ${exact(turn)}`}
      and ${sources === null ? sql`sources is null` : sql`sources = ${sources}`} limit 1`);
  if (known !== undefined) return Number(known.id);
  const id = await nextIds(tx, "origin", 1);
  await tx.all(sql`
    insert into origins (id, tenant, user_id, session, actor, turn, action, call_id, made_at, sources)
    values (${id}, ${exact(tenant)}, ${exact(user)}, ${exact(session)}, ${exact(actor)}, ${exact(turn)},
      ${exact(action)}, ${exact(callId)}, ${at}, ${sources})`);
  return id;
}

/** The row of those whom something of `who` reaches, marked as changed. */
export async function ownerId({ tx, revision }: Change, reach: Reach, who: Whose): Promise<number> {
  const key = ownerKey(reach, who);
  const [known] = await tx.all(sql`update owners set revision = ${revision} where key = ${key} returning id`);
  if (known !== undefined) return Number(known.id);
  const id = await nextIds(tx, "owner", 1);
  await tx.all(sql`insert into owners (id, key, reach, revision) values (${id}, ${key}, ${reach}, ${revision})`);
  return id;
}

export function ownerKey(reach: Reach, { tenant = "", user = "", session, actor }: Whose): string {
  switch (reach) {
    case "session":
      return JSON.stringify([reach, tenant, user, session]);
    case "actor":
      return JSON.stringify([reach, tenant, user, actor]);
    case "tenant":
      return JSON.stringify([reach, tenant]);
  }
}

/** Marks the owners whose ids `ids` selects as changed. */
export async function touch({ tx, revision }: Change, ids: Query): Promise<void> {
  await tx.all(sql`update owners set revision = ${revision} where id in (${ids})`);
}

/** Where what was removed came from and whom it reached. */
export interface Left {
  readonly origins: Set<number>;
  readonly owners: Set<number>;
}

/** Marks the owners of what was removed as changed, and forgets those, and the origins, of which nothing is left. */
export async function forget(change: Change, { origins, owners }: Left): Promise<void> {
  for (const ids of portions([...origins])) {
    await change.tx.all(sql`
      delete from origins where id in (${listed(ids)})
        and not exists (select 1 from notes n where n.origin = origins.id)
        and not exists (select 1 from collections c where c.origin = origins.id)`);
  }
  for (const ids of portions([...owners])) {
    await touch(change, listed(ids));
    await change.tx.all(sql`
      delete from owners where id in (${listed(ids)})
        and not exists (select 1 from notes n where n.owner = owners.id)
        and not exists (select 1 from collections c where c.owner = owners.id)`);
  }
}

export function listed(ids: readonly number[]): Query {
  return ids.length === 0
    ? sql`null`
    : join(
        ids.map((id) => sql`${id}`),
        ", ",
      );
}
