import type { CollectionLine, NoteLine, VersionLine } from "./export.ts";
import { readLineContent, readLineSources, toImportedLabel } from "./import-reader.ts";
import {
  type InfospaceStore,
  MAX_VERSIONS,
  type NewNote,
  type Retention,
  type SaveRequest,
  type StoredContent,
} from "./infospace-store.ts";
import {
  type Collection,
  formatHandle,
  listSources,
  mergeSources,
  type NoteFacts,
  type NoteOrigin,
  type NoteVisibility,
  type ResourceKind,
} from "./note.ts";

export interface ImportResult {
  readonly notes: number;
  readonly collections: number;
  /** Earlier versions, of notes and of collections. */
  readonly versions: number;
  /** How many would have expired by now, and were given as much time as what is new. */
  readonly renewed: number;
  /** The first of the new handles, without those of notes that were made for a collection. */
  readonly handles: readonly string[];
}

interface ImportedResource {
  readonly kind: ResourceKind;
  readonly id: number;
}

/** Writes what an import brings, under new ids. */
export interface ImportWriter {
  /** With what it said before, the first one first, as much of that as is kept. Throws where something is not what its hash says. */
  note(line: NoteLine, earlier: readonly VersionLine[]): Promise<void>;
  collection(line: CollectionLine): Promise<void>;
  /** What comes from here on is the next version of the collection that was begun last. Throws where it is not. */
  state(version: number): Promise<void>;
  /** More of the collection that was begun last, by the handles they had. Throws where one did not come before. */
  items(handles: readonly string[]): Promise<void>;
  counts(): Pick<ImportResult, "notes" | "collections">;
  /**
   * Writes what is left, and keeps for good what was, all of it in one go: who dies before has kept nothing for good, and what
   * was written expires.
   */
  finish(): Promise<ImportResult>;
  /** Takes back everything. */
  undo(): Promise<void>;
  /** What it made, as it is now, but for the notes that were made for collections. */
  created(): AsyncIterable<readonly [ResourceKind, NoteFacts | Collection]>;
}

export interface ImportWriterOptions {
  readonly store: InfospaceStore;
  readonly origin: NoteOrigin;
  /** Until when something new is kept. */
  readonly expiresAt: string;
}

/** Where a note went: a part's id is looked up when it is needed, for most never is. */
type NoteLocation = number | { readonly collection: number; readonly version: number; readonly position: number };

/** The collection that is being written. */
interface OpenCollection {
  readonly id: number;
  readonly line: CollectionLine;
  readonly standing: Retention;
  /** Which version it is that is being filled, and where: what becomes the next one is a collection of its own until then. */
  readonly version: number;
  readonly filling: number;
  count: number;
}

/** Something that is to be kept for good. */
interface PendingSave {
  readonly kind: ResourceKind;
  readonly place: NoteLocation;
  readonly reach: NoteVisibility;
}

interface Batch<T> {
  readonly waiting: T[];
  bytes: number;
}

const BATCH = { members: 500, bytes: 1024 * 1024 };
const SHOWN_HANDLES = 20;

export function createImportWriter({ store, origin, expiresAt: anew }: ImportWriterOptions): ImportWriter {
  const places = new Map<string, NoteLocation>();
  const made: ImportedResource[] = [];
  const saved: PendingSave[] = [];
  const counts = { notes: 0, collections: 0, versions: 0, renewed: 0 };
  const alone: Batch<{ readonly note: NewNote; readonly line: NoteLine }> = { waiting: [], bytes: 0 };
  const parts: Batch<NewNote> = { waiting: [], bytes: 0 };
  let standing: Retention = { reach: "session" };
  /** Where what waits to be written came from. */
  let from = origin;
  let open: OpenCollection | undefined;

  /** What was kept for good expires like anything else until everything is there. */
  function toRetention({ reach, expires_at }: NoteLine | CollectionLine): Retention {
    if (expires_at === undefined) return { reach, expiresAt: anew };
    const expiresAt = new Date(expires_at).toISOString();
    if (expiresAt > origin.at) return { reach, expiresAt };
    counts.renewed++;
    return { reach, expiresAt: anew };
  }

  async function writeAlone(): Promise<void> {
    const taken = alone.waiting.splice(0);
    alone.bytes = 0;
    if (taken.length === 0) return;
    const first = await store.addNotes(
      from,
      taken.map(({ note }) => note),
      standing,
    );
    for (const [index, { line }] of taken.entries()) {
      const id = first + index;
      made.push({ kind: "note", id });
      if (line.id !== undefined) places.set(line.id, id);
      if (line.expires_at === undefined) saved.push({ kind: "note", place: id, reach: line.reach });
    }
  }

  async function writeParts(): Promise<void> {
    const taken = parts.waiting.splice(0);
    parts.bytes = 0;
    if (open !== undefined && taken.length > 0) await store.append(open.filling, taken, from);
  }

  /** Puts what was written last in its place, where that is not the first there is. */
  async function closeState(): Promise<void> {
    await writeParts();
    if (open === undefined || open.filling === open.id) return;
    const { id, filling } = open;
    if ((await store.replaceCollection(id, filling, origin.at)) === undefined) throw concurrentChangeError();
    open = { ...open, filling: id };
  }

  async function closeCollection(): Promise<void> {
    await closeState();
    if (open?.line.complete === true) await store.complete(open.id);
    open = undefined;
  }

  /** The id that the note of that handle has now. */
  async function resolveHandleId(handle: string): Promise<number> {
    const place = places.get(handle);
    if (place === undefined) throw new Error(`${handle} does not come before it`);
    const id = await resolveLocation(place);
    places.set(handle, id);
    return id;
  }

  async function resolveLocation(place: NoteLocation): Promise<number> {
    if (typeof place === "number") return place;
    const { collection, version, position } = place;
    const isFilled = open?.id === collection && open.version === version && open.filling !== collection;
    const [item] = isFilled
      ? await store.items(open?.filling ?? 0, { from: position, limit: 1 })
      : await store.items(collection, { version, from: position, limit: 1 });
    if (item === undefined) throw concurrentChangeError();
    return item.id;
  }

  async function addLaterVersions(later: readonly StoredContent[], place: () => NoteLocation): Promise<void> {
    if (later.length === 0) return;
    await writeAlone();
    await writeParts();
    const id = await resolveLocation(place());
    for (const [index, content] of later.entries()) {
      await store.replaceNote(id, index + 1, content, origin.at, listSources(from));
    }
    counts.versions += later.length;
  }

  /** What is imported came from the actions it came from before. What waits and came from others is written first. */
  async function switchSources(line: NoteLine): Promise<void> {
    const next = mergeSources(origin, readLineSources(line));
    if (next.sources?.join(" ") === from.sources?.join(" ")) return;
    await writeAlone();
    await writeParts();
    from = next;
  }

  async function addAlone(line: NoteLine, note: NewNote): Promise<void> {
    const next = toRetention(line);
    if (!isSame(next, standing)) await writeAlone();
    await switchSources(line);
    standing = next;
    alone.waiting.push({ note, line });
    alone.bytes += note.bytes;
    if (isFull(alone)) await writeAlone();
  }

  async function addPart(line: NoteLine, note: NewNote, place: NoteLocation, of: CollectionLine): Promise<void> {
    if (line.id !== undefined) places.set(line.id, place);
    // Saved for itself: otherwise it is kept as long as the collection, and for the same.
    if (line.expires_at === undefined && (of.expires_at !== undefined || of.reach !== line.reach))
      saved.push({ kind: "note", place, reach: line.reach });
    await switchSources(line);
    parts.waiting.push(note);
    parts.bytes += note.bytes;
    if (isFull(parts)) await writeParts();
  }

  async function* listCreated(): AsyncGenerator<readonly [ResourceKind, NoteFacts | Collection]> {
    for (const { kind, id } of made) {
      const facts = await (kind === "note" ? store.noteFacts(id) : store.collection(id));
      if (facts !== undefined) yield [kind, facts];
    }
  }

  return {
    async note(line, earlier) {
      const present = readLineContent(line);
      const before = earlier.map(readLineContent).slice(-MAX_VERSIONS);
      const [first = present, ...rest] = before;
      const later = before.length === 0 ? [] : [...rest, present];
      const note = { ...first, ...toImportedLabel(line) };
      counts.notes++;
      if (line.part_of === undefined || open === undefined) {
        await addAlone(line, note);
        return addLaterVersions(later, () => made.at(-1)?.id ?? 0);
      }
      const place = { collection: open.id, version: open.version, position: open.count++ };
      await addPart(line, note, place, open.line);
      return addLaterVersions(later, () => place);
    },
    async collection(line) {
      await writeAlone();
      await closeCollection();
      counts.collections++;
      const standing = toRetention(line);
      const id = await store.addCollection(
        mergeSources(origin, readLineSources(line)),
        toImportedLabel(line),
        standing,
      );
      made.push({ kind: "collection", id });
      open = { id, line, standing, version: 1, filling: id, count: 0 };
      if (line.expires_at === undefined) saved.push({ kind: "collection", place: id, reach: line.reach });
    },
    async state(version) {
      await writeAlone();
      await closeState();
      if (open?.version !== version - 1) throw new Error(`it has no version before ${version}`);
      const filling = await store.addCollection(origin, {}, open.standing);
      made.push({ kind: "collection", id: filling });
      counts.versions++;
      open = { ...open, version, filling, count: 0 };
    },
    async items(handles) {
      await writeAlone();
      await writeParts();
      if (open === undefined) return;
      const entries: { readonly id: number }[] = [];
      for (const handle of handles) entries.push({ id: await resolveHandleId(handle) });
      if (entries.length > 0) await store.append(open.filling, entries, origin);
      open.count += entries.length;
    },
    counts: () => counts,
    async finish() {
      await writeAlone();
      await closeCollection();
      const all: SaveRequest[] = [];
      for (const { kind, place, reach } of saved)
        all.push({ kind, id: await resolveLocation(place), reach, at: origin.at });
      // Collections first: with them goes what is in them, and a note may reach others than they do.
      await store.saveAll(all.toSorted((one, other) => Number(one.kind === "note") - Number(other.kind === "note")));
      const handles: string[] = [];
      for await (const [kind, { id }] of listCreated()) {
        handles.push(formatHandle(kind, id));
        if (handles.length === SHOWN_HANDLES) break;
      }
      return { ...counts, handles };
    },
    async undo() {
      // A collection can hold what was made for an earlier one, and never the other way round.
      for (const { kind, id } of made.toReversed()) await store.remove(kind, id);
    },
    created: listCreated,
  };
}

function concurrentChangeError(): Error {
  return new Error("what was imported is being changed");
}

function isFull({ waiting, bytes }: Batch<unknown>): boolean {
  return waiting.length >= BATCH.members || bytes >= BATCH.bytes;
}

function isSame(one: Retention, other: Retention): boolean {
  return one.reach === other.reach && one.expiresAt === other.expiresAt;
}
