import { yieldToEventLoop } from "../core/async.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { CollectionMembers, CollectOptions, Infospace, InfospaceOptions, NoteLabel } from "./infospace.ts";
import type { NewCollectionItem, NewNote, Retention, StoredContent } from "./infospace-store.ts";
import { batchMembers, toFileContent, toJsonContent } from "./infospace-store.ts";
import {
  type Collection,
  formatHandle,
  handleNotFoundError,
  listSources,
  mergeSources,
  type NoteFacts,
  type NoteOrigin,
  notAHandleError,
  type ParsedHandle,
  parseHandle,
  type ResourceKind,
  versionNotFoundError,
  wrongKindError,
} from "./note.ts";
import { createNoteOrigin, createWrittenEvent, type NoteAuthor } from "./provenance.ts";
import { isOutOfRoom } from "./quota.ts";
import { listUsable, toResourceAction } from "./resource-access.ts";

/** What is read or written at a time. In between others get their turn: SQLite answers at once, and would never let go. */
const PORTION = { members: 500, bytes: 1024 * 1024 };
/** How often a name is taken that somebody else changes at the same time. */
const ATTEMPTS = 8;
const NAMESAKES = 20;
const NAMESAKES_LISTED = 5;

export function createInfospace(parts: InfospaceOptions): Infospace {
  const { store, runtime, expiresInMs, mayUse, lineage, note: record } = parts;
  const now = (): string => runtime.now().toISOString();

  /** What is written came from all that the call has read by now. */
  function traceOrigin(maker: NoteAuthor, at: Date): NoteOrigin {
    return mergeSources(createNoteOrigin(maker, at), lineage?.sources() ?? []);
  }

  /** What has expired is in nobody's way: it goes before a write is refused. */
  async function retryAfterExpiry<T>({ caller }: NoteAuthor, write: () => Promise<T>): Promise<T> {
    try {
      return await write();
    } catch (thrown) {
      if (!isOutOfRoom(thrown)) throw thrown;
      const gone = await store.expire(now());
      if (gone.notes + gone.collections === 0) throw thrown;
      record(caller, { type: "resources.expired", data: gone });
      return write();
    }
  }

  function requireAccess<T extends NoteFacts | Collection>(
    kind: ResourceKind,
    found: T | undefined,
    asked: string,
    caller: Caller,
  ): T {
    const access = found === undefined ? "hidden" : mayUse(toResourceAction(kind, found), caller);
    if (access === "allowed" && found !== undefined) {
      lineage?.add(listSources(found.origin));
      return found;
    }
    if (typeof access === "object") throw new QmError("denied", access.refused, { details: { handle: asked } });
    throw handleNotFoundError(asked);
  }

  /** Whoever may read something may not therefore change it, nor see what it was before it was shared. */
  function requireOwner(made: NoteFacts | Collection, asked: string, caller: Caller): void {
    if (isOwnResource(made, caller)) return;
    throw new QmError("denied", `${asked} is another's: you may use it as it is`, {
      hint: "Make a copy of your own and change that: infospace__create-collection, infospace__create-note.",
      details: { handle: asked },
    });
  }

  function isOwnResource(made: NoteFacts | Collection, caller: Caller): boolean {
    return mayUse(toResourceAction(getResourceKind(made), { ...made, reach: "actor" }), caller) === "allowed";
  }

  /** What a handle says, or what the newest thing of that name is. */
  async function resolveResourceHandle(asked: string, caller: Caller, wanted?: ResourceKind): Promise<ParsedHandle> {
    // A host may give anything, and no name at all would be that of everything.
    if (typeof asked !== "string" || asked === "") throw notAHandleError(String(asked));
    const written = parseHandle(asked);
    if (written !== undefined) {
      if (wanted !== undefined && written.kind !== wanted) throw wrongKindError(asked, wanted);
      return written;
    }
    for (const kind of ["collection", "note"] as const) {
      if (wanted !== undefined && kind !== wanted) continue;
      const found = await findNewestByName(kind, asked, caller);
      if (found !== undefined) return { kind, id: found.id };
    }
    throw notAHandleError(asked);
  }

  async function resource(asked: string, caller: Caller): Promise<NoteFacts | Collection> {
    const { kind, id } = await resolveResourceHandle(asked, caller);
    const found = await (kind === "note" ? store.noteFacts(id) : store.collection(id));
    return requireAccess(kind, found, asked, caller);
  }

  async function collection(asked: string, caller: Caller, version?: number): Promise<Collection> {
    const { id } = await resolveResourceHandle(asked, caller, "collection");
    const present = requireAccess("collection", await store.collection(id), asked, caller);
    if (version === undefined || version === present.version) return present;
    requireOwner(present, asked, caller);
    const held = await store.collectionVersion(id, version);
    if (held === undefined) throw versionNotFoundError(asked, version, present.version);
    return { ...present, version, ...held };
  }

  function createTransientRetention(): Retention {
    return { reach: "session", expiresAt: new Date(runtime.now().getTime() + expiresInMs).toISOString() };
  }

  /** Those of a name that the caller may use, the newest first. */
  async function findByName(
    kind: ResourceKind,
    name: string,
    caller: Caller,
  ): Promise<readonly (NoteFacts | Collection)[]> {
    const found: (NoteFacts | Collection)[] = [];
    for await (const each of listUsable({ store, mayUse }, { kind, whose: toOwnerScope(caller), name }, caller)) {
      found.push(each);
      if (found.length === NAMESAKES) break;
    }
    return found;
  }

  /** What a name means to the caller: the newest of their own, or else of what others share. */
  async function findNewestByName(
    kind: ResourceKind,
    name: string,
    caller: Caller,
  ): Promise<NoteFacts | Collection | undefined> {
    const all = await findByName(kind, name, caller);
    return all.find((each) => isOwnResource(each, caller)) ?? all[0];
  }

  /** What a name is given to again: one's own. What was saved is not replaced by what is only derived. */
  async function findReplaceable(
    kind: ResourceKind,
    { name, replaces = "transient" }: NoteLabel,
    caller: Caller,
  ): Promise<NoteFacts | Collection | undefined> {
    if (name === undefined) return undefined;
    const own = (await findByName(kind, name, caller)).find((each) => isOwnResource(each, caller));
    return own?.expiresAt === undefined && replaces === "transient" ? undefined : own;
  }

  async function writeNote(maker: NoteAuthor, content: NewNote, label: NoteLabel): Promise<NoteFacts> {
    const origin = traceOrigin(maker, runtime.now());
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const present = (await findReplaceable("note", label, maker.caller)) as NoteFacts | undefined;
      if (present === undefined) break;
      const { id, version } = present;
      const replaced = await retryAfterExpiry(maker, () =>
        store.replaceNote(id, version, content, origin.at, listSources(origin)),
      );
      if (replaced !== undefined) return recordWrite(maker, "note", replaced);
    }
    const id = await retryAfterExpiry(maker, () => store.addNotes(origin, [content], createTransientRetention()));
    const added = await store.noteFacts(id);
    if (added === undefined) throw handleNotFoundError(formatHandle("note", id));
    return recordWrite(maker, "note", added);
  }

  function recordWrite<T extends NoteFacts | Collection>(maker: NoteAuthor, kind: ResourceKind, made: T): T {
    record(maker.caller, createWrittenEvent(maker, kind, made));
    return made;
  }

  async function fill(
    id: number,
    maker: NoteAuthor,
    written: AsyncIterable<readonly NewCollectionItem[]>,
    { onProgress, signal }: Pick<CollectOptions, "onProgress" | "signal"> = {},
  ): Promise<void> {
    const handle = formatHandle("collection", id);
    const at = runtime.now();
    let count = 0;
    signal?.throwIfAborted();
    for await (const entries of written) {
      const origin = traceOrigin(maker, at);
      if ((await retryAfterExpiry(maker, () => store.append(id, entries, origin))) === undefined)
        throw handleNotFoundError(handle);
      count += entries.length;
      onProgress?.(handle, count);
      await yieldToEventLoop();
      // What came is written first: whoever is stopped has it.
      signal?.throwIfAborted();
    }
  }

  /** A new collection without a name, or nothing: what there is no room for leaves no half of it. */
  async function fillNewCollection<T>(
    maker: NoteAuthor,
    label: NoteLabel,
    work: (id: number) => Promise<T>,
  ): Promise<T> {
    const origin = traceOrigin(maker, runtime.now());
    const id = await retryAfterExpiry(maker, () => store.addCollection(origin, label, createTransientRetention()));
    try {
      return await work(id);
    } catch (thrown) {
      if (isOutOfRoom(thrown)) await store.remove("collection", id).catch(() => {});
      throw thrown;
    }
  }

  return {
    resource,
    collection,
    async note(asked, caller, version) {
      const { id } = await resolveResourceHandle(asked, caller, "note");
      const present = requireAccess("note", await store.note(id), asked, caller);
      if (version === undefined || version === present.version) return present;
      requireOwner(present, asked, caller);
      const earlier = await store.noteVersion(id, version);
      if (earlier === undefined) throw versionNotFoundError(asked, version, present.version);
      return earlier;
    },
    async *items({ id, version, count, bytes }, { from = 0, to = Number.POSITIVE_INFINITY, signal } = {}) {
      const fitting = Math.max(1, Math.min(PORTION.members, Math.floor((PORTION.bytes * count) / Math.max(1, bytes))));
      for (let at = from; at < to; ) {
        signal?.throwIfAborted();
        const page = await store.items(id, { version, from: at, limit: Math.min(fitting, to - at) });
        yield* page.filter(({ position }) => position < to);
        const last = page.at(-1);
        if (last === undefined) {
          // What is gone has no items either, and half of it must not be taken for all.
          if ((await store.collection(id)) === undefined) throw handleNotFoundError(formatHandle("collection", id));
          return;
        }
        at = last.position + 1;
        await yieldToEventLoop();
      }
    },
    write: (maker, content, label = {}) => writeNote(maker, toNewNote(toJsonContent(content), label), label),
    writeFile: (maker, { bytes, mediaType, ...label }) =>
      writeNote(maker, toNewNote(toFileContent(bytes, mediaType), label), label),
    async collect(maker, members, { name, properties, replaces, portion = PORTION.members, ...how } = {}) {
      const present = await findReplaceable("collection", { name, replaces }, maker.caller);
      // What takes the place of another has no name of its own until it is all there.
      const label = present === undefined ? { name, properties } : { properties };
      return fillNewCollection(maker, label, async (id) => {
        let written = 0;
        const onProgress = (handle: string, count: number): void => {
          written = count;
          how.onProgress?.(handle, count);
        };
        onProgress(formatHandle("collection", id), 0);
        try {
          const all = batchMembers(toEntries(members), { ...PORTION, members: portion });
          await fill(id, maker, all, { ...how, onProgress });
        } catch (thrown) {
          if (written === 0) await store.remove("collection", id).catch(() => {});
          throw thrown;
        }
        if (how.isWhole?.() !== false) await store.complete(id);
        const replaced = present === undefined ? undefined : await store.replaceCollection(present.id, id, now());
        const made = replaced ?? (await store.collection(id));
        if (made === undefined) throw handleNotFoundError(formatHandle("collection", id));
        return recordWrite(maker, "collection", made);
      });
    },
    async add(maker, handle, members) {
      const present = await collection(handle, maker.caller);
      requireOwner(present, handle, maker.caller);
      const { id } = present;
      const all = batchMembers(toEntries(members), PORTION);
      const [first, second] = [await all.next(), await all.next()];
      const written = prepend([first, second], all);
      // One portion is written at once. More are put together elsewhere first, so that all are added or none.
      if (second.done) await fill(id, maker, written);
      else {
        await fillNewCollection(maker, {}, async (staged) => {
          await fill(staged, maker, written);
          if ((await store.absorb(id, staged, now())) === undefined) throw handleNotFoundError(handle);
        });
      }
      return recordWrite(maker, "collection", await collection(handle, maker.caller));
    },
    async takeOut(maker, handle, notes) {
      const present = await collection(handle, maker.caller);
      requireOwner(present, handle, maker.caller);
      const { id } = present;
      const places = await store.removeItems(id, notes, now());
      if (places > 0) recordWrite(maker, "collection", await collection(handle, maker.caller));
      return places;
    },
    async save(maker, asked, { reach, name }) {
      const made = await resource(asked, maker.caller);
      requireOwner(made, asked, maker.caller);
      const [kind, id] = [getResourceKind(made), made.id];
      const handle = formatHandle(kind, id);
      const saved = await store.save(kind, id, { reach, name, at: now() });
      if (saved === undefined) throw handleNotFoundError(handle);
      const data = { callId: maker.callId, handle, reach, ...(name === undefined ? {} : { name }) };
      record(maker.caller, { type: "resource.saved", data });
      return saved;
    },
    async remove(maker, asked) {
      const made = await resource(asked, maker.caller);
      requireOwner(made, asked, maker.caller);
      const handle = formatHandle(getResourceKind(made), made.id);
      const removed = await store.remove(getResourceKind(made), made.id);
      record(maker.caller, { type: "resource.removed", data: { callId: maker.callId, handle, ...removed } });
      return removed;
    },
    async namesakes(resource, caller) {
      const { name } = resource;
      if (name === undefined) return [];
      const all = [...(await findByName("collection", name, caller)), ...(await findByName("note", name, caller))];
      return all
        .filter((each) => each.id !== resource.id || getResourceKind(each) !== getResourceKind(resource))
        .slice(0, NAMESAKES_LISTED)
        .map((each) => formatHandle(getResourceKind(each), each.id));
    },
  };
}

/** Of a caller, what decides on which resources are within reach. */
export function toOwnerScope({ tenant, user, actor, session }: Caller) {
  return { tenant, user: user?.id, actor, session };
}

function toNewNote(content: StoredContent, { name, properties }: NoteLabel): NewNote {
  return { ...content, name, properties };
}

async function* toEntries(members: CollectionMembers): AsyncGenerator<NewCollectionItem & { readonly bytes?: number }> {
  for await (const member of members) {
    if ("id" in member) yield member;
    else yield { ...toJsonContent(member.content), name: member.name, properties: member.properties };
  }
}

/** What was read already, then the rest. */
async function* prepend<T>(read: readonly IteratorResult<T, void>[], rest: AsyncIterable<T>): AsyncGenerator<T> {
  for (const each of read) if (!each.done) yield each.value;
  yield* rest;
}

function getResourceKind(made: NoteFacts | Collection): ResourceKind {
  return "count" in made ? "collection" : "note";
}
