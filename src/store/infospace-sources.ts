import type { ResourceKind } from "../infospace/note.ts";
import { type Change, touchOwners } from "./infospace-changes.ts";
import { escapeText, formatSources, readSources, unescapeColumn } from "./infospace-rows.ts";
import { RUN_LIMIT } from "./infospace-runs.ts";
import { type Sql, sql } from "./sql.ts";

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

/** Adds sources, also to all collections that hold the note: who may use a collection may use all in it. */
export async function addSources(
  change: Change,
  kind: ResourceKind,
  id: number,
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
  for (const { collection } of holders) await addSources(change, "collection", Number(collection), missing);
}
