import type { ResourceKind } from "../infospace/handle.ts";
import type { Change } from "./infospace-change.ts";
import { read, sourcesText, storedSources } from "./infospace-rows.ts";
import { RUN_LIMIT } from "./infospace-runs.ts";
import { sql } from "./sql.ts";

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
  if (kind === "collection") return;
  const holders = await tx.all(sql`
    select distinct m.collection from members m
    where m.note > ${id - RUN_LIMIT} and m.note <= ${id} and m.note + m.run > ${id}`);
  for (const { collection } of holders) {
    await addSources(change, { kind: "collection", id: Number(collection) }, missing);
  }
}
