import type { OwnerScope } from "../infospace/infospace-store.ts";
import { type NoteOrigin, type NoteVisibility, noteVisibilities } from "../infospace/note.ts";
import type { Quota } from "../infospace/quota.ts";
import { escapeText, formatSources, readOwnerRow } from "./infospace-rows.ts";
import { bindList, type Sql, type SqlQuery, type SqlRow, splitIntoBatches, sql } from "./sql.ts";

export type Reader = { readonly tx: Sql; readonly now: string };

/** One change of notes and collections, in one transaction. */
export interface Change extends Reader {
  /** Greater than the revision of every earlier change. */
  readonly revision: number;
  /** Absent: nothing is refused. */
  readonly quota: Quota | undefined;
}

/** One change at a time: its first statement makes the next one wait, so rows that were read stay the same. */
export const runChange = <T>(
  db: Sql,
  now: () => Date,
  work: (change: Change) => Promise<T>,
  quota?: Quota,
): Promise<T> =>
  db.transaction(async (tx) => {
    const revision = await allocateIds(tx, "revision", 1);
    return work({ tx, revision, quota, now: now().toISOString() });
  });

type IdKind = "note" | "collection" | "origin" | "owner" | "revision";

/** Returns the first of `count` new ids. */
export async function allocateIds(tx: Sql, kind: IdKind, count: number): Promise<number> {
  const [row] = await tx.all(sql`update resource_ids set last = last + ${count} where kind = ${kind} returning last`);
  return Number(row?.last) - count + 1;
}

/** Returns the id of the origin row, which the results of one call at one time share. */
export async function ensureOrigin({ tx }: Change, origin: NoteOrigin): Promise<number> {
  const { tenant = "", user = "", session, actor, turn, action, callId, at } = origin;
  const sources = formatSources(origin.sources);
  const [known] = await tx.all(sql`
    select id from origins
    where call_id = ${escapeText(callId)} and made_at = ${at} and action = ${escapeText(action)} and tenant = ${escapeText(tenant)}
      and user_id = ${escapeText(user)} and session = ${escapeText(session)} and actor = ${escapeText(actor)}
      and ${turn === undefined ? sql`turn is null` : sql`turn = ${escapeText(turn)}`}
      and ${sources === null ? sql`sources is null` : sql`sources = ${sources}`} limit 1`);
  if (known !== undefined) return Number(known.id);
  const id = await allocateIds(tx, "origin", 1);
  await tx.all(sql`
    insert into origins (id, tenant, user_id, session, actor, turn, action, call_id, made_at, sources)
    values (${id}, ${escapeText(tenant)}, ${escapeText(user)}, ${escapeText(session)}, ${escapeText(actor)}, ${escapeText(turn)},
      ${escapeText(action)}, ${escapeText(callId)}, ${at}, ${sources})`);
  return id;
}

/** Returns the id of the owner row for this visibility, and marks it as changed. */
export async function ensureOwner(change: Change, reach: NoteVisibility, scope: OwnerScope): Promise<number> {
  const { tx, revision } = change;
  const key = ownerKey(reach, scope);
  const [known] = await tx.all(sql`update owners set revision = ${revision} where key = ${key} returning id`);
  if (known !== undefined) return Number(known.id);
  const id = await allocateIds(tx, "owner", 1);
  await tx.all(sql`insert into owners (id, key, reach, revision) values (${id}, ${key}, ${reach}, ${revision})`);
  return id;
}

export function ownerKey(reach: NoteVisibility, { tenant = "", user = "", session, actor }: OwnerScope): string {
  if (reach === "tenant") return JSON.stringify([reach, tenant]);
  return JSON.stringify([reach, tenant, user, reach === "session" ? session : actor]);
}

/** Marks owners as changed. `ids` is a list or a select of ids. */
export async function touchOwners({ tx, revision }: Change, ids: SqlQuery): Promise<void> {
  await tx.all(sql`update owners set revision = ${revision} where id in (${ids})`);
}

export async function touchCollection(change: Change, id: number): Promise<void> {
  await touchOwners(change, sql`select owner from collections where id = ${id}`);
}

export class RemovedReferences {
  readonly origins = new Set<number>();
  readonly owners = new Set<number>();

  add({ origin, owner }: SqlRow): void {
    this.origins.add(Number(origin));
    this.owners.add(Number(owner));
  }
}

/** Marks the owners as changed, and deletes owners and origins that nothing refers to any more. */
export async function pruneReferences(change: Change, owners: ReadonlySet<number>, origins = new Set<number>()) {
  for (const ids of splitIntoBatches([...origins])) {
    await change.tx.all(sql`
      delete from origins where id in (${bindList(ids)})
        and not exists (select 1 from notes n where n.origin = origins.id)
        and not exists (select 1 from collections c where c.origin = origins.id)`);
  }
  for (const ids of splitIntoBatches([...owners])) {
    await touchOwners(change, bindList(ids));
    await change.tx.all(sql`
      delete from owners where id in (${bindList(ids)})
        and not exists (select 1 from notes n where n.owner = owners.id)
        and not exists (select 1 from collections c where c.owner = owners.id)`);
  }
}

/** Lets the notes expire not before that time, or never if `expiresAt` is undefined. */
export async function extendExpiry(change: Change, ids: SqlQuery, expiresAt: string | undefined): Promise<void> {
  const sooner = expiresAt === undefined ? sql`` : sql`and n.expires_at < ${expiresAt}`;
  const these = sql`n.id in (${ids}) and n.expires_at is not null ${sooner}`;
  await touchOwners(change, sql`select n.owner from notes n where ${these}`);
  await change.tx.all(sql`update notes as n set expires_at = ${expiresAt ?? null} where ${these}`);
}

/** Widens the visibility of the notes to at least `reach`. */
export async function widenReach(change: Change, ids: SqlQuery, reach: NoteVisibility): Promise<void> {
  const narrower = noteVisibilities.slice(0, noteVisibilities.indexOf(reach));
  if (narrower.length === 0) return;
  const these = sql`
    n.id in (${ids}) and exists (select 1 from owners w where w.id = n.owner and w.reach in (${bindList(narrower)}))`;
  // The new owner depends on the origin. Thousands of origins have few different owners.
  const kinds = await change.tx.all(sql`
    select o.tenant, o.user_id, o.actor, min(o.session) as session
    from notes n join origins o on o.id = n.origin where ${these} group by o.tenant, o.user_id, o.actor`);
  if (kinds.length === 0) return;
  const before = await change.tx.all(sql`select distinct n.owner from notes n where ${these}`);
  for (const kind of kinds) {
    const who = readOwnerRow(kind, "an origin");
    const owner = await ensureOwner(change, reach, who);
    await change.tx.all(sql`
      update notes as n set owner = ${owner}
      where ${these} and exists (
        select 1 from origins o where o.id = n.origin
          and o.tenant = ${escapeText(who.tenant ?? "")} and o.user_id = ${escapeText(who.user ?? "")}
          and o.actor = ${escapeText(who.actor)})`);
  }
  await pruneReferences(change, new Set(before.map((row) => Number(row.owner))));
}
