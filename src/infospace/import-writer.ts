import type { CollectionLine, NoteLine, VersionLine } from "./export-format.ts";
import { readLineContent, readLineSources, toImportedLabel } from "./export-format.ts";
import type { InfospaceStore, NewNote, Retention, SaveRequest, StoredContent } from "./infospace-store.ts";
import { MAX_VERSIONS } from "./infospace-store.ts";
import type { NoteOrigin, NoteVisibility, Resource, ResourceKind } from "./note.ts";
import { formatHandle, getResourceKind, listSources, mergeSources } from "./note.ts";

export interface ImportResult {
  readonly notes: number;
  readonly collections: number;
  /** Earlier versions of notes and collections. */
  readonly versions: number;
  /** How many had expired, and got the lifetime of new resources. */
  readonly renewed: number;
  /** The first new handles, without notes that were made for a collection. */
  readonly handles: readonly string[];
}

export type ImportWriter = ReturnType<typeof createImportWriter>;
type ImportWriterOptions = Readonly<{ store: InfospaceStore; origin: NoteOrigin; expiresAt: string }>;

/** The id of a note, or its place in a collection: most ids of parts are never looked up. */
type NoteLocation = number | { readonly collection: number; readonly version: number; readonly position: number };

interface OpenCollection {
  readonly id: number;
  readonly line: CollectionLine;
  readonly retention: Retention;
  readonly version: number;
  /** The collection that gets the items. A later version is a collection of its own until it is complete. */
  readonly filling: number;
  count: number;
}

type Batch<T> = { readonly waiting: T[]; bytes: number };
const BATCH = { members: 500, bytes: 1024 * 1024 };
const LISTED_HANDLES = 20;

/** Writes imported resources under new ids. */
export function createImportWriter({ store, origin, expiresAt: newExpiry }: ImportWriterOptions) {
  const places = new Map<string, NoteLocation>();
  const created: { readonly kind: ResourceKind; readonly id: number }[] = [];
  const saves: { readonly kind: ResourceKind; readonly place: NoteLocation; readonly reach: NoteVisibility }[] = [];
  const counts = { notes: 0, collections: 0, versions: 0, renewed: 0 };
  const alone: Batch<{ readonly note: NewNote; readonly line: NoteLine }> = { waiting: [], bytes: 0 };
  const parts: Batch<NewNote> = { waiting: [], bytes: 0 };
  let retention: Retention = { reach: "session" };
  /** The origin of the waiting notes. */
  let from = origin;
  let open: OpenCollection | undefined;

  /** Until `finish`, saved resources expire as well. */
  function toRetention({ reach, expires_at }: NoteLine | CollectionLine): Retention {
    if (expires_at === undefined) return { reach, expiresAt: newExpiry };
    const expiresAt = new Date(expires_at).toISOString();
    if (expiresAt > origin.at) return { reach, expiresAt };
    counts.renewed++;
    return { reach, expiresAt: newExpiry };
  }

  async function writeAlone(): Promise<void> {
    const taken = alone.waiting.splice(0);
    alone.bytes = 0;
    if (taken.length === 0) return;
    const notes = taken.map(({ note }) => note);
    const first = await store.addNotes(from, notes, retention);
    for (const [index, { line }] of taken.entries()) {
      const id = first + index;
      created.push({ kind: "note", id });
      if (line.id !== undefined) places.set(line.id, id);
      if (line.expires_at === undefined) saves.push({ kind: "note", place: id, reach: line.reach });
    }
  }

  async function writeParts(): Promise<void> {
    const taken = parts.waiting.splice(0);
    parts.bytes = 0;
    if (open !== undefined && taken.length > 0) await store.append(open.filling, taken, from);
  }

  /** Makes the staged items the current version of the open collection. */
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

  async function resolveHandleId(handle: string): Promise<number> {
    const place = places.get(handle);
    if (place === undefined) throw new Error(`${handle} does not come before it`);
    const id = await resolveLocation(place);
    places.set(handle, id);
    return id;
  }

  async function resolveLocation(place: NoteLocation): Promise<number> {
    if (typeof place === "number") return place;
    const { collection: id, version, position: from } = place;
    const isFilled = open?.id === id && open.version === version && open.filling !== id;
    const query = { from, limit: 1 };
    const [item] = await (isFilled ? store.items(open?.filling ?? 0, query) : store.items(id, { version, ...query }));
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

  /** Writes the waiting notes first if the line has other source actions. */
  async function switchSources(line: NoteLine): Promise<void> {
    const next = mergeSources(origin, readLineSources(line));
    if (next.sources?.join(" ") === from.sources?.join(" ")) return;
    await writeAlone();
    await writeParts();
    from = next;
  }

  async function addAlone(line: NoteLine, note: NewNote): Promise<void> {
    const next = toRetention(line);
    if (next.reach !== retention.reach || next.expiresAt !== retention.expiresAt) await writeAlone();
    await switchSources(line);
    retention = next;
    alone.waiting.push({ note, line });
    alone.bytes += note.bytes;
    if (isFull(alone)) await writeAlone();
  }

  async function addPart(line: NoteLine, note: NewNote, place: NoteLocation, of: CollectionLine): Promise<void> {
    if (line.id !== undefined) places.set(line.id, place);
    // Otherwise it has the lifetime and reach of its collection.
    if (line.expires_at === undefined && (of.expires_at !== undefined || of.reach !== line.reach))
      saves.push({ kind: "note", place, reach: line.reach });
    await switchSources(line);
    parts.waiting.push(note);
    parts.bytes += note.bytes;
    if (isFull(parts)) await writeParts();
  }

  /** The new resources, without notes that were made for a collection. */
  async function* listCreated(): AsyncGenerator<Resource> {
    for (const { kind, id } of created) {
      const facts = await (kind === "note" ? store.noteFacts(id) : store.collection(id));
      if (facts !== undefined) yield facts;
    }
  }

  return {
    /** `earlier` has its earlier versions, oldest first. Throws if a content does not match its hash. */
    async note(line: NoteLine, earlier: readonly VersionLine[]): Promise<void> {
      const present = readLineContent(line);
      const before = earlier.map(readLineContent).slice(-MAX_VERSIONS);
      const [first = present, ...rest] = before;
      const later = before.length === 0 ? [] : [...rest, present];
      const note = { ...first, ...toImportedLabel(line) };
      counts.notes++;
      if (line.part_of === undefined || open === undefined) {
        await addAlone(line, note);
        return addLaterVersions(later, () => created.at(-1)?.id ?? 0);
      }
      const place = { collection: open.id, version: open.version, position: open.count++ };
      await addPart(line, note, place, open.line);
      return addLaterVersions(later, () => place);
    },
    async collection(line: CollectionLine): Promise<void> {
      await writeAlone();
      await closeCollection();
      counts.collections++;
      const retention = toRetention(line);
      const sourced = mergeSources(origin, readLineSources(line));
      const id = await store.addCollection(sourced, toImportedLabel(line), retention);
      created.push({ kind: "collection", id });
      open = { id, line, retention, version: 1, filling: id, count: 0 };
      if (line.expires_at === undefined) saves.push({ kind: "collection", place: id, reach: line.reach });
    },
    /** Begins the next version of the last collection. */
    async state(version: number): Promise<void> {
      await writeAlone();
      await closeState();
      if (open?.version !== version - 1) throw new Error(`it has no version before ${version}`);
      const filling = await store.addCollection(origin, {}, open.retention);
      created.push({ kind: "collection", id: filling });
      counts.versions++;
      open = { ...open, version, filling, count: 0 };
    },
    /** Adds items to the last collection by their old handles. Throws for a handle that was not imported before. */
    async items(handles: readonly string[]): Promise<void> {
      await writeAlone();
      await writeParts();
      if (open === undefined) return;
      const entries: { readonly id: number }[] = [];
      for (const handle of handles) entries.push({ id: await resolveHandleId(handle) });
      if (entries.length > 0) await store.append(open.filling, entries, origin);
      open.count += entries.length;
    },
    counts: (): Pick<ImportResult, "notes" | "collections"> => counts,
    /** Writes the rest, then saves everything in one transaction: after a crash before that, all of it expires. */
    async finish(): Promise<ImportResult> {
      await writeAlone();
      await closeCollection();
      const requests: SaveRequest[] = [];
      for (const { kind, place, reach } of saves)
        requests.push({ kind, id: await resolveLocation(place), reach, at: origin.at });
      // Saving a collection saves its notes, so notes with a reach of their own come after.
      await store.saveAll(requests.toSorted((a, b) => Number(a.kind === "note") - Number(b.kind === "note")));
      const handles: string[] = [];
      for await (const each of listCreated()) {
        handles.push(formatHandle(getResourceKind(each), each.id));
        if (handles.length === LISTED_HANDLES) break;
      }
      return { ...counts, handles };
    },
    async undo(): Promise<void> {
      // Newest first: a collection may contain notes that were made for an earlier one.
      for (const { kind, id } of created.toReversed()) await store.remove(kind, id);
    },
    created: listCreated,
  };
}

function concurrentChangeError(): Error {
  return new Error("another process changes the imported notes");
}

function isFull({ waiting, bytes }: Batch<unknown>): boolean {
  return waiting.length >= BATCH.members || bytes >= BATCH.bytes;
}
