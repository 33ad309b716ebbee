import type { InfospaceStore } from "../infospace-store.ts";
import type { Collection } from "../note.ts";

/** Where notes stand in a collection, the first place of each. Those that are not in it are left out. */
export type Places = (
  collection: Collection,
  notes: readonly number[],
  signal: AbortSignal,
) => Promise<ReadonlyMap<number, number>>;

const PAGE = 200;

/** Looks no further than it must, and from where it came to the last time. */
export function createPlaces(store: Pick<InfospaceStore, "items">): Places {
  let version: number | undefined;
  let next = 0;
  let first = new Map<number, number>();

  return async (collection, notes, signal) => {
    if (collection.version !== version) {
      version = collection.version;
      next = 0;
      first = new Map();
    }
    const mine = first;
    while (notes.some((note) => !mine.has(note))) {
      signal.throwIfAborted();
      const page = await store.items(collection.id, { version: collection.version, from: next, limit: PAGE });
      // Another search may have come by meanwhile, for the same or a newer version.
      if (page.length === 0 || mine !== first) break;
      for (const { id, position } of page) {
        if (!mine.has(id)) mine.set(id, position);
        next = Math.max(next, position + 1);
      }
    }
    return new Map(notes.flatMap((note) => (mine.has(note) ? [[note, mine.get(note) ?? 0]] : [])));
  };
}
