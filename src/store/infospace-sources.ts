import type { ResourceKind } from "../infospace/handle.ts";
import type { InfospaceStore } from "../infospace/infospace-store.ts";
import { type Change, touch } from "./infospace-change.ts";
import { exact, read, sourcesText, storedSources } from "./infospace-rows.ts";
import { RUN_LIMIT } from "./infospace-runs.ts";
import { type Sql, sql } from "./sql.ts";

/** A question to a person is over long before. */
const HELD_MS = 90 * 86_400_000;

/** What calls that wait came from. */
export function sourceMethods(db: Sql, now: () => Date): Pick<InfospaceStore, "holdSources" | "heldSources"> {
  async function heldSources(tx: Sql, callId: string): Promise<readonly string[]> {
    const [row] = await tx.all(sql`select sources from held_sources where call_id = ${exact(callId)}`);
    return row === undefined ? [] : storedSources(row, "sources", "a call");
  }
  return {
    holdSources: (callId, sources) =>
      db.transaction(async (tx) => {
        const all = [...new Set([...(await heldSources(tx, callId)), ...sources])].sort();
        await tx.all(sql`
          insert into held_sources (call_id, sources, held_at)
          values (${exact(callId)}, ${JSON.stringify(all)}, ${now().toISOString()})
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
  const own = storedSources(row, "sources", kind);
  const known = new Set([read(row, "action", kind), ...storedSources(row, "origin_sources", kind), ...own]);
  const missing = [...new Set(actions)].filter((action) => !known.has(action));
  if (missing.length === 0) return;
  await tx.all(sql`update ${table} set sources = ${sourcesText([...own, ...missing].sort())} where id = ${id}`);
  await touch(change, sql`select owner from ${table} where id = ${id}`);
  if (kind === "collection") return;
  const holders = await tx.all(sql`
    select distinct m.collection from members m
    where m.note > ${id - RUN_LIMIT} and m.note <= ${id} and m.note + m.run > ${id}`);
  for (const { collection } of holders) {
    await addSources(change, { kind: "collection", id: Number(collection) }, missing);
  }
}
