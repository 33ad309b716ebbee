import type { InfospaceStore } from "../infospace/infospace-store.ts";
import type { Quota } from "../infospace/quota.ts";
import { type Change, runChange, touchCollection } from "./infospace-changes.ts";
import { absorb, addCollection, readCollection, replaceCollection, save } from "./infospace-collections.ts";
import { countResources, listResources, readContents, readMark } from "./infospace-list.ts";
import { append, findPositions, readCollectionItems, readCollectionVersion, removeItems } from "./infospace-members.ts";
import {
  insertNotes,
  readHistory,
  readNote,
  readNoteFacts,
  readNotes,
  readNoteVersion,
  replaceNote,
} from "./infospace-notes.ts";
import { removeExpired, removeResource } from "./infospace-removal.ts";
import { holdSources, readHeldSources } from "./infospace-sources.ts";
import { readUsage } from "./infospace-usage.ts";
import { type Sql, sql } from "./sql.ts";

/** Notes and collections in SQL. Without a quota nothing is refused, but usage is still counted. */
export function createSqlInfospaceStore(db: Sql, clock: () => Date, quota?: Quota): InfospaceStore {
  const reader = () => ({ tx: db, now: clock().toISOString() });
  const change = <T>(work: (change: Change) => Promise<T>) => runChange(db, clock, work);
  const charged = <T>(work: (change: Change) => Promise<T>) => runChange(db, clock, work, quota);
  return {
    addNotes: (origin, notes, retention) => charged((c) => insertNotes(c, notes, origin, retention)),
    note: async (id) => readNote(reader(), id),
    noteFacts: async (id) => readNoteFacts(reader(), id),
    notes: async (ids) => readNotes(reader(), ids),
    replaceNote: (id, version, content, at, sources = []) =>
      charged((c) => replaceNote(c, id, version, content, at, sources)),
    history: async (id) => readHistory(reader(), id),
    noteVersion: async (id, version) => readNoteVersion(reader(), id, version),

    addCollection: (origin, collection, retention) => charged((c) => addCollection(c, origin, collection, retention)),
    collection: async (id) => readCollection(reader(), id),
    collectionVersion: async (id, version) => readCollectionVersion(reader(), id, version),
    append: (id, entries, origin) => charged((c) => append(c, id, entries, origin)),
    absorb: (id, by, at) => charged((c) => absorb(c, id, by, at)),
    complete: (id) =>
      change(async (c) => {
        await c.tx.all(sql`update collections set complete = 1 where id = ${id}`);
        await touchCollection(c, id);
      }),
    replaceCollection: (id, by, at) => charged((c) => replaceCollection(c, id, by, at)),
    removeItems: (id, notes, at) => charged((c) => removeItems(c, id, new Set(notes), at)),
    items: async (id, query) => readCollectionItems(reader(), id, query),
    positions: async (id, version, notes) => findPositions(reader(), id, version, notes),

    save: (kind, id, how) => change((c) => save(c, { kind, id, ...how })),
    saveAll: (list) =>
      change(async (c) => {
        for (const each of list) await save(c, each);
      }),
    remove: (kind, id) => removeResource(change, kind, id),
    expire: (at) => change((c) => removeExpired(c, at)),

    list: listResources(reader),
    count: async (query) => countResources(reader(), query),
    mark: async (of) => readMark(reader(), of),
    contents: async (of, { allows = () => true } = {}) => readContents(reader(), of, allows),
    holdSources: (callId, sources) => db.transaction((tx) => holdSources(tx, clock(), callId, sources)),
    heldSources: async (callId) => readHeldSources(db, callId),
    usage: async (of) => readUsage(db, of),
    limitedTo: (next) => createSqlInfospaceStore(db, clock, next),
  };
}
