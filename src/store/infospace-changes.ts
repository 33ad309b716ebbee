import type { InfospaceStore, OwnerScope } from "../infospace/infospace-store.ts";
import type { ResourceKind } from "../infospace/note.ts";
import { type NoteOrigin, type NoteVisibility, noteVisibilities } from "../infospace/note.ts";
import type { Quota } from "../infospace/quota.ts";
import { escapeText, formatSources, readOwnerRow, readSources, unescapeColumn } from "./infospace-rows.ts";
import { joinQueries, type Sql, type SqlQuery, splitIntoBatches, sql } from "./sql.ts";

/** One change of notes and collections, in one transaction. */
export interface InfospaceChange {
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
export function runInfospaceChange<T>(
  db: Sql,
  now: () => Date,
  work: (change: InfospaceChange) => Promise<T>,
  quota?: Quota,
): Promise<T> {
  return db.transaction(async (tx) => {
    const revision = await allocateIds(tx, "revision", 1);
    return work({ tx, revision, quota, now: now().toISOString() });
  });
}

/** The first of `count` ids that were never used. */
export async function allocateIds(
  tx: Sql,
  kind: "note" | "collection" | "origin" | "owner" | "revision",
  count: number,
): Promise<number> {
  const [row] = await tx.all(sql`update resource_ids set last = last + ${count} where kind = ${kind} returning last`);
  return Number(row?.last) - count + 1;
}

/** The row of an origin: one for all that one call made at one time. */
export async function ensureOrigin({ tx }: InfospaceChange, origin: NoteOrigin): Promise<number> {
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

/** The row of those whom something of `who` reaches, marked as changed. */
export async function ensureOwner(
  { tx, revision }: InfospaceChange,
  reach: NoteVisibility,
  who: OwnerScope,
): Promise<number> {
  const key = ownerKey(reach, who);
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

/** Marks the owners whose ids `ids` selects as changed. */
export async function touchOwners({ tx, revision }: InfospaceChange, ids: SqlQuery): Promise<void> {
  await tx.all(sql`update owners set revision = ${revision} where id in (${ids})`);
}

/** Where what was removed came from and whom it reached. */
export interface RemovedReferences {
  readonly origins: Set<number>;
  readonly owners: Set<number>;
}

/** Marks the owners of what was removed as changed, and forgets those, and the origins, of which nothing is left. */
export async function pruneReferences(change: InfospaceChange, { origins, owners }: RemovedReferences): Promise<void> {
  for (const ids of splitIntoBatches([...origins])) {
    await change.tx.all(sql`
      delete from origins where id in (${joinIds(ids)})
        and not exists (select 1 from notes n where n.origin = origins.id)
        and not exists (select 1 from collections c where c.origin = origins.id)`);
  }
  for (const ids of splitIntoBatches([...owners])) {
    await touchOwners(change, joinIds(ids));
    await change.tx.all(sql`
      delete from owners where id in (${joinIds(ids)})
        and not exists (select 1 from notes n where n.owner = owners.id)
        and not exists (select 1 from collections c where c.owner = owners.id)`);
  }
}

export function joinIds(ids: readonly number[]): SqlQuery {
  return ids.length === 0
    ? sql`null`
    : joinQueries(
        ids.map((id) => sql`${id}`),
        ", ",
      );
}

/** Notes with consecutive ids at consecutive positions: a row of `members`. */
export interface NoteRun {
  readonly position: number;
  readonly note: number;
  readonly run: number;
}

/** How long a run may be. Bounded, so that the runs that hold a note are among those that begin shortly before it. */
export const RUN_LIMIT = 1000;

/** Puts a note after the last of the runs. */
export function appendNoteToRuns(runs: NoteRun[], note: number): void {
  const last = runs.at(-1);
  if (last !== undefined && last.note + last.run === note && last.run < RUN_LIMIT) {
    runs[runs.length - 1] = { ...last, run: last.run + 1 };
  } else {
    runs.push({ position: last === undefined ? 0 : last.position + last.run, note, run: 1 });
  }
}

export const runHasNote = sql`n.id >= m.note and n.id < m.note + m.run`;

/** The ids of the notes that a collection holds, or held in any version. */
export function selectNoteIds(collection: number, version?: number): SqlQuery {
  const only = version === undefined ? sql`` : sql`and m.version = ${version}`;
  return sql`
    select n.id from members m join notes n on ${runHasNote} where m.collection = ${collection} ${only}`;
}

interface NoteHolder {
  readonly collection: number;
  readonly owner: number;
  /** How often the note is in it. */
  readonly places: number;
}

/** The collections that hold a note in their newest version. */
export async function findNoteHolders({ tx }: InfospaceChange, note: number): Promise<readonly NoteHolder[]> {
  const rows = await tx.all(sql`
    select c.id, c.owner, count(*) as places
    from members m join collections c on c.id = m.collection and c.version = m.version
    where m.note > ${note - RUN_LIMIT} and m.note <= ${note} and m.note + m.run > ${note}
    group by c.id, c.owner`);
  return rows.map(({ id, owner, places }) => ({
    collection: Number(id),
    owner: Number(owner),
    places: Number(places),
  }));
}

/** No note among those that `ids` selects is forgotten before that time; absent: none is forgotten at all. */
export async function extendExpiry(
  change: InfospaceChange,
  ids: SqlQuery,
  expiresAt: string | undefined,
): Promise<void> {
  const sooner =
    expiresAt === undefined
      ? sql`n.expires_at is not null`
      : sql`n.expires_at is not null and n.expires_at < ${expiresAt}`;
  const these = sql`n.id in (${ids}) and ${sooner}`;
  await touchOwners(change, sql`select n.owner from notes n where ${these}`);
  await change.tx.all(sql`update notes as n set expires_at = ${expiresAt ?? null} where ${these}`);
}

/** Every note among those that `ids` selects reaches at least as far. One that reaches farther is left alone. */
export async function widenReach(change: InfospaceChange, ids: SqlQuery, reach: NoteVisibility): Promise<void> {
  const narrower = noteVisibilities.slice(0, noteVisibilities.indexOf(reach)).map((each) => sql`${each}`);
  if (narrower.length === 0) return;
  const these = sql`
    n.id in (${ids}) and exists (select 1 from owners w where w.id = n.owner and w.reach in (${joinQueries(narrower, ", ")}))`;
  // Whom it reaches then is up to where it came from: of a thousand origins, few differ in that.
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
  await pruneReferences(change, { origins: new Set(), owners: new Set(before.map((row) => Number(row.owner))) });
}

/** A question to a person is over long before. */
const HELD_MS = 90 * 86_400_000;

/** What calls that wait came from. */
export function createSourceMethods(db: Sql, now: () => Date): Pick<InfospaceStore, "holdSources" | "heldSources"> {
  async function heldSources(tx: Sql, callId: string): Promise<readonly string[]> {
    const [row] = await tx.all(sql`select sources from held_sources where call_id = ${escapeText(callId)}`);
    return row === undefined ? [] : readSources(row, "sources", "a call");
  }
  return {
    holdSources: (callId, sources) =>
      db.transaction(async (tx) => {
        const all = [...new Set([...(await heldSources(tx, callId)), ...sources])].sort();
        await tx.all(sql`
          insert into held_sources (call_id, sources, held_at)
          values (${escapeText(callId)}, ${JSON.stringify(all)}, ${now().toISOString()})
          on conflict (call_id) do update set sources = excluded.sources, held_at = excluded.held_at`);
        const before = new Date(now().getTime() - HELD_MS).toISOString();
        await tx.all(sql`delete from held_sources where held_at < ${before}`);
      }),
    heldSources: (callId) => heldSources(db, callId),
  };
}

/**
 * Notes that something came from these actions as well. What holds a note came from all that the note came from, in whatever
 * version it holds it: who may use a collection may use everything in it.
 */
export async function addSources(
  change: InfospaceChange,
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
