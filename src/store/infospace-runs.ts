import type { Change } from "./infospace-changes.ts";
import { type SqlQuery, sql } from "./sql.ts";

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
