import type { OwnerScope } from "../infospace/infospace-store.ts";
import { type NoteOrigin, type NoteVisibility, noteVisibilities, type ResourceKind } from "../infospace/note.ts";
import type { Quota } from "../infospace/quota.ts";
import { escapeText, formatSources, readOwnerRow, readSources, unescapeColumn } from "./infospace-rows.ts";
import { bindList, type Sql, type SqlQuery, type SqlRow, splitIntoBatches, sql } from "./sql.ts";

export type Reader = { readonly tx: Sql; readonly now: string };

/** One change of notes and collections, in one transaction. */
export interface Change extends Reader {
  /** Greater than the revision of every earlier change. */
  readonly revision: number;
  /** Absent: nothing is refused. */
  readonly quota: Quota | undefined;
}

/**
 * Runs one change at a time, also on engines with concurrent writers: the first statement makes the next change wait, so
 * the rows that a change has read stay the same until it ends.
 */
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

/** Returns the first of `count` new ids. */
export async function allocateIds(
  tx: Sql,
  kind: "note" | "collection" | "origin" | "owner" | "revision",
  count: number,
): Promise<number> {
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
  switch (reach) {
    case "session":
      return JSON.stringify([reach, tenant, user, session]);
    case "actor":
      return JSON.stringify([reach, tenant, user, actor]);
    case "tenant":
      return JSON.stringify([reach, tenant]);
  }
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
export async function pruneReferences(
  change: Change,
  { origins = new Set(), owners }: { readonly origins?: ReadonlySet<number>; readonly owners: ReadonlySet<number> },
): Promise<void> {
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

export type NoteRun = { readonly position: number; readonly note: number; readonly run: number };

/** The longest run. A run that holds a note starts less than this before it, so few rows are searched. */
export const RUN_LIMIT = 1000;

export function appendNoteToRuns(runs: NoteRun[], note: number): void {
  const last = runs.at(-1);
  if (last !== undefined && last.note + last.run === note && last.run < RUN_LIMIT) {
    runs[runs.length - 1] = { ...last, run: last.run + 1 };
  } else {
    runs.push({ position: last === undefined ? 0 : last.position + last.run, note, run: 1 });
  }
}

export const runHasNote = sql`n.id >= m.note and n.id < m.note + m.run`;

/** Selects the ids of the notes in one version of a collection, or in all versions. */
export function selectNoteIds(collection: number, version?: number): SqlQuery {
  const only = version === undefined ? sql`` : sql`and m.version = ${version}`;
  return sql`
    select n.id from members m join notes n on ${runHasNote} where m.collection = ${collection} ${only}`;
}

/** The collections that hold a note in their newest version. `places` is how often the note is in it. */
export async function findNoteHolders({ tx }: Change, note: number) {
  const rows = await tx.all(sql`
    select c.id, c.owner, count(*) as places
    from members m join collections c on c.id = m.collection and c.version = m.version
    where m.note > ${note - RUN_LIMIT} and m.note <= ${note} and m.note + m.run > ${note}
    group by c.id, c.owner`);
  return rows.map((row) => ({ collection: Number(row.id), owner: Number(row.owner), places: Number(row.places) }));
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
  await pruneReferences(change, { owners: new Set(before.map((row) => Number(row.owner))) });
}

/** How long the sources of a waiting call are stored. Approvals expire long before. */
const HELD_MS = 90 * 86_400_000;

export async function readHeldSources(tx: Sql, callId: string): Promise<readonly string[]> {
  const [row] = await tx.all(sql`select sources from held_sources where call_id = ${escapeText(callId)}`);
  return row === undefined ? [] : readSources(row, "sources", "a call");
}

export async function holdSources(tx: Sql, now: Date, callId: string, sources: readonly string[]): Promise<void> {
  const all = [...new Set([...(await readHeldSources(tx, callId)), ...sources])].sort();
  await tx.all(sql`
    insert into held_sources (call_id, sources, held_at)
    values (${escapeText(callId)}, ${JSON.stringify(all)}, ${now.toISOString()})
    on conflict (call_id) do update set sources = excluded.sources, held_at = excluded.held_at`);
  await tx.all(sql`delete from held_sources where held_at < ${new Date(now.getTime() - HELD_MS).toISOString()}`);
}

/**
 * Records more actions that a note or collection has data from. Collections that hold the note in any version get them too:
 * a caller that may use a collection may use everything in it.
 */
export async function addSources(
  change: Change,
  { kind, id }: { readonly kind: ResourceKind; readonly id: number },
  actions: Iterable<string>,
): Promise<void> {
  const { tx } = change;
  const table = kind === "note" ? sql`notes` : sql`collections`;
  const [row] = await tx.all(sql`
    select o.action, o.sources as origin_sources, r.sources
    from ${table} r join origins o on o.id = r.origin where r.id = ${id}`);
  if (row === undefined) return;
  const own = readSources(row, "sources", kind);
  const known = new Set([unescapeColumn(row, "action", kind), ...readSources(row, "origin_sources", kind), ...own]);
  const missing = [...new Set(actions)].filter((action) => !known.has(action));
  if (missing.length === 0) return;
  await tx.all(sql`update ${table} set sources = ${formatSources([...own, ...missing].sort())} where id = ${id}`);
  await touchOwners(change, sql`select owner from ${table} where id = ${id}`);
  if (kind === "collection") return;
  const holders = await tx.all(sql`
    select distinct m.collection from members m
    where m.note > ${id - RUN_LIMIT} and m.note <= ${id} and m.note + m.run > ${id}`);
  for (const { collection } of holders) {
    await addSources(change, { kind: "collection", id: Number(collection) }, missing);
  }
}
