import type { Change } from "./infospace-change.ts";
import { type Query, sql } from "./sql.ts";

/** Notes with consecutive ids at consecutive positions: a row of `members`. */
export interface Run {
  readonly position: number;
  readonly note: number;
  readonly run: number;
}

/** How long a run may be. Bounded, so that the runs that hold a note are among those that begin shortly before it. */
export const RUN_LIMIT = 1000;

/** Puts a note after the last of the runs. */
export function addTo(runs: Run[], note: number): void {
  const last = runs.at(-1);
  if (last !== undefined && last.note + last.run === note && last.run < RUN_LIMIT) {
    runs[runs.length - 1] = { ...last, run: last.run + 1 };
  } else {
    runs.push({ position: last === undefined ? 0 : last.position + last.run, note, run: 1 });
  }
}

export const runHasNote = sql`n.id >= m.note and n.id < m.note + m.run`;

/** The ids of the notes that a collection holds, or held in any version. */
export function notesIn(collection: number, version?: number): Query {
  const only = version === undefined ? sql`` : sql`and m.version = ${version}`;
  return sql`
    select n.id from members m join notes n on ${runHasNote} where m.collection = ${collection} ${only}`;
}

export interface Holder {
  readonly collection: number;
  readonly owner: number;
  /** How often the note is in it. */
  readonly places: number;
}

/** The collections that hold a note in their newest version. */
export async function holdersOf({ tx }: Change, note: number): Promise<readonly Holder[]> {
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
