import { QmError } from "../core/errors.ts";
import { handleOf } from "../infospace/handle.ts";
import type { Entry, InfospaceStore, NewNote } from "../infospace/infospace-store.ts";
import { type Collection, type Origin, sourcesOf, withSources } from "../infospace/note.ts";
import type { Quota } from "../infospace/quota.ts";
import { type Change, changing, listed, touch } from "./infospace-change.ts";
import { collectionIn } from "./infospace-collections.ts";
import { keepUntil, widenTo } from "./infospace-holding.ts";
import { insertNotes } from "./infospace-notes.ts";
import {
  collectionIsThere,
  contentColumns,
  fileTable,
  itemOf,
  noteIsThere,
  read,
  storedSources,
} from "./infospace-rows.ts";
import { addTo, RUN_LIMIT, type Run, runHasNote } from "./infospace-runs.ts";
import { addSources } from "./infospace-sources.ts";
import { charge, payerOf } from "./infospace-use.ts";
import { portions } from "./portions.ts";
import { join, type Row, type Sql, sql } from "./sql.ts";

type MemberMethods = Pick<InfospaceStore, "append" | "removeItems" | "items" | "positions" | "collectionVersion">;

/**
 * What collections hold, in SQL: one row a run. A position is given once and stays with its note; where that note was
 * removed it stays empty, so positions rise and may leave some out, and whoever goes on from the position after the last
 * that was read misses nothing and reads nothing twice. The next version counts from 0 again.
 */
export function memberMethods(db: Sql, now: () => Date, quota: Quota | undefined): MemberMethods {
  return {
    append: (id, entries, origin) => changing(db, now, (change) => append(change, id, entries, origin), quota),
    removeItems: (id, notes, at) => changing(db, now, (change) => removeItems(change, id, new Set(notes), at), quota),
    async items(id, { version, from, limit }) {
      const first = Math.max(0, Math.trunc(from));
      const at = now().toISOString();
      const rows = await db.all(sql`
        select m.position + (n.id - m.note) as position, n.id, n.format, n.bytes, n.hash, ${contentColumns}
        from collections c
        join members m on m.collection = c.id and m.version = ${version === undefined ? sql`c.version` : sql`${version}`}
        join notes n on n.id >= case when m.position < ${first} then m.note + (${first} - m.position) else m.note end
          and n.id < m.note + m.run
        ${fileTable}
        where c.id = ${id} and m.position > ${first - RUN_LIMIT} and ${collectionIsThere(at)} and ${noteIsThere(at)}
        order by m.position, n.id limit ${Math.max(0, Math.trunc(limit))}`);
      return rows.map(itemOf);
    },
    async positions(id, version, notes) {
      const at = now().toISOString();
      const first = new Map<number, number>();
      for (const some of portions([...new Set(notes)])) {
        const there = await db.all(
          sql`select n.id from notes n where n.id in (${listed(some)}) and ${noteIsThere(at)}`,
        );
        const wanted = there.map((row) => Number(row.id));
        const [least, most] = [Math.min(...wanted), Math.max(...wanted)];
        if (wanted.length === 0) continue;
        const runs = await db.all(sql`
          select m.position, m.note, m.run from collections c join members m on m.collection = c.id
          where c.id = ${id} and m.version = ${version} and ${collectionIsThere(at)}
            and (m.note in (${listed(wanted)}) or m.run > 1 and m.note > ${least - RUN_LIMIT} and m.note <= ${most})
          order by m.position`);
        for (const { position, note, run } of runs.map(runOf)) {
          for (const each of wanted) {
            if (each >= note && each < note + run && !first.has(each)) first.set(each, position + (each - note));
          }
        }
      }
      return first;
    },
    async collectionVersion(id, version) {
      if (!Number.isSafeInteger(version) || version < 1) return undefined;
      const at = now().toISOString();
      const [row] = await db.all(sql`
        select count(n.id) as count, coalesce(sum(n.bytes), 0) as bytes
        from collections c
        left join members m on m.collection = c.id and m.version = ${version}
        left join notes n on ${runHasNote} and ${noteIsThere(at)}
        where c.id = ${id} and c.version >= ${version} and ${collectionIsThere(at)}
        group by c.id`);
      return row === undefined ? undefined : { count: Number(row.count), bytes: Number(row.bytes) };
    },
  };
}

async function append(
  change: Change,
  id: number,
  entries: readonly Entry[],
  origin: Origin,
): Promise<Collection | undefined> {
  const { tx } = change;
  const collection = await collectionIn(change, id);
  if (collection === undefined || entries.length === 0) return collection;
  const given = [...new Set(entries.filter(isThere).map((entry) => entry.id))];
  const sizes = await sizesOf(change, given);
  const missing = given.find((note) => !sizes.has(note));
  if (missing !== undefined) throw notThere(missing);
  const sources = new Set<string>();
  for (const some of portions(given)) {
    for (const each of await sourcesOfNotes(change, some)) sources.add(each);
    await keepUntil(change, listed(some), collection.expiresAt);
    await widenTo(change, listed(some), collection.reach);
  }
  const made = entries.filter((entry): entry is NewNote => !isThere(entry));
  let next = made.length === 0 ? 0 : await insertNotes(change, made, { origin, standing: collection, partOf: id });

  const [before] = await tx.all(sql`
    select position, note, run from members where collection = ${id} and version = ${collection.version}
    order by position desc limit 1`);
  const runs = before === undefined ? [] : [runOf(before)];
  let bytes = 0;
  for (const entry of entries) {
    addTo(runs, isThere(entry) ? entry.id : next++);
    bytes += isThere(entry) ? (sizes.get(entry.id) ?? 0) : entry.bytes;
  }
  const added = before === undefined ? runs.length : runs.length - 1;
  if (added > 0) await charge(change, payerOf(collection.origin), { rows: added });
  if (before !== undefined) {
    const [extended] = runs.splice(0, 1);
    await tx.all(sql`
      update members set run = ${extended?.run ?? 0}
      where collection = ${id} and version = ${collection.version} and position = ${Number(before.position)}`);
  }
  await insertRuns(change, id, collection.version, runs);
  await tx.all(sql`
    update collections set count = count + ${entries.length}, bytes = bytes + ${bytes}, changed_at = ${origin.at}
    where id = ${id}`);
  await touch(change, sql`select owner from collections where id = ${id}`);
  await addSources(change, { kind: "collection", id }, [...sourcesOf(origin), ...sources]);
  return {
    ...collection,
    origin: withSources(collection.origin, [...sourcesOf(origin), ...sources]),
    count: collection.count + entries.length,
    bytes: collection.bytes + bytes,
    changedAt: origin.at,
  };
}

async function removeItems(change: Change, id: number, notes: ReadonlySet<number>, at: string): Promise<number> {
  const { tx } = change;
  const collection = await collectionIn(change, id);
  if (collection === undefined) return 0;
  const sizes = await sizesOf(change, [...notes]);
  const rows = await tx.all(sql`
    select position, note, run from members where collection = ${id} and version = ${collection.version}
    order by position`);
  const runs: Run[] = [];
  let [places, bytes] = [0, 0];
  for (const { note, run } of rows.map(runOf)) {
    for (let each = note; each < note + run; each++) {
      if (!notes.has(each)) addTo(runs, each);
      const size = sizes.get(each);
      if (size === undefined) continue;
      places += 1;
      bytes += size;
    }
  }
  if (places === 0) return 0;
  await charge(change, payerOf(collection.origin), { rows: runs.length });
  await insertRuns(change, id, collection.version + 1, runs);
  await tx.all(sql`
    update collections set version = version + 1, count = count - ${places}, bytes = bytes - ${bytes},
      changed_at = ${at} where id = ${id}`);
  await touch(change, sql`select owner from collections where id = ${id}`);
  return places;
}

async function sourcesOfNotes({ tx }: Change, ids: readonly number[]): Promise<ReadonlySet<string>> {
  const rows = await tx.all(sql`
    select distinct o.action, o.sources as origin_sources, n.sources from notes n join origins o on o.id = n.origin
    where n.id in (${listed(ids)})`);
  const own = rows.map((row) => sourcesOf({ action: read(row, "action", "a note") }));
  const more = rows.flatMap((row) =>
    ["origin_sources", "sources"].map((column) => storedSources(row, column, "a note")),
  );
  return new Set([...own, ...more].flat());
}

async function insertRuns({ tx }: Change, id: number, version: number, runs: readonly Run[]): Promise<void> {
  const rows = runs.map(({ position, note, run }) => sql`(${id}, ${version}, ${position}, ${note}, ${run})`);
  for (const some of portions(rows)) {
    await tx.all(sql`insert into members (collection, version, position, note, run) values ${join(some, ", ")}`);
  }
}

/** How long they are, of those that are there. */
async function sizesOf({ tx, now }: Change, ids: readonly number[]): Promise<ReadonlyMap<number, number>> {
  const sizes = new Map<number, number>();
  for (const some of portions(ids)) {
    const rows = await tx.all(sql`
      select n.id, n.bytes from notes n where n.id in (${listed(some)}) and ${noteIsThere(now)}`);
    for (const { id, bytes } of rows) sizes.set(Number(id), Number(bytes));
  }
  return sizes;
}

function isThere(entry: Entry): entry is { readonly id: number } {
  return "id" in entry;
}

function runOf({ position, note, run }: Row): Run {
  return { position: Number(position), note: Number(note), run: Number(run) };
}

function notThere(id: number): QmError {
  return new QmError("not_found", `${handleOf("note", id)} is not there to be put into a collection`, {
    hint: "It may have been removed, or have expired, since. Nothing of this portion was put in.",
  });
}
