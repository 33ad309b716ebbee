import { yieldToEventLoop } from "../core/async.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { omitUndefined } from "../core/json.ts";
import type { CollectionMembers, CollectOptions, Infospace, InfospaceOptions, NoteLabel } from "./infospace.ts";
import type { NewCollectionItem, NewNote, Retention } from "./infospace-store.ts";
import { toFileContent, toJsonContent } from "./infospace-store.ts";
import type { Collection, NoteFacts, NoteOrigin, ParsedHandle, Resource, ResourceKind } from "./note.ts";
import {
  formatHandle,
  getResourceKind,
  handleNotFoundError,
  listSources,
  mergeSources,
  notAHandleError,
  parseHandle,
  versionNotFoundError,
  wrongKindError,
} from "./note.ts";
import { batchMembers, estimatePageSize } from "./portions.ts";
import { createNoteOrigin, createWrittenEvent, type NoteAuthor } from "./provenance.ts";
import { isOutOfRoom } from "./quota.ts";
import { listFirstUsable, toResourceAction } from "./resource-access.ts";

/** Other work runs between portions: SQLite answers synchronously and would block the event loop. */
const PORTION = { members: 500, bytes: 1024 * 1024 };
/** How often a note is replaced again after a concurrent change. */
const ATTEMPTS = 8;
type Portions = AsyncIterable<readonly NewCollectionItem[]>;
const MAX_NAMESAKES = 20;
const LISTED_NAMESAKES = 5;

export function createInfospace(parts: InfospaceOptions): Infospace {
  const { store, runtime, expiresInMs, mayUse, lineage, note: record } = parts;
  const now = (): string => runtime.now().toISOString();

  /** The sources are all actions whose data the call has read so far. */
  function traceOrigin(maker: NoteAuthor, at: Date): NoteOrigin {
    return mergeSources(createNoteOrigin(maker, at), lineage?.sources() ?? []);
  }

  /** Removes expired resources and tries again if there is no room. */
  async function retryAfterExpiry<T>({ caller }: NoteAuthor, write: () => Promise<T>): Promise<T> {
    try {
      return await write();
    } catch (thrown) {
      if (!isOutOfRoom(thrown)) throw thrown;
      const expired = await store.expire(now());
      if (expired.notes + expired.collections === 0) throw thrown;
      record(caller, { type: "resources.expired", data: expired });
      return write();
    }
  }

  function requireAccess<T extends Resource>(kind: ResourceKind, found: T | undefined, handle: string, caller: Caller) {
    const access = found === undefined ? "hidden" : mayUse(toResourceAction(kind, found), caller);
    if (access === "allowed" && found !== undefined) {
      lineage?.add(listSources(found.origin));
      return found;
    }
    if (typeof access === "object") throw new QmError("denied", access.refused, { details: { handle } });
    throw handleNotFoundError(handle);
  }

  /** Only the owner may change a resource, or see its versions from before it was shared. */
  function requireOwner<T extends Resource>(resource: T, handle: string, caller: Caller): T {
    if (isOwnResource(resource, caller)) return resource;
    throw new QmError("denied", `${handle} belongs to another caller: you may read it and not change it`, {
      hint: "Make a copy of your own and change that. Use {infospace__create-collection} for a collection. Use {infospace__create-note} for a note.",
      details: { handle },
    });
  }

  const isOwnResource = (resource: Resource, caller: Caller): boolean =>
    mayUse(toResourceAction(getResourceKind(resource), { ...resource, reach: "actor" }), caller) === "allowed";

  /** Parses a handle, or finds the newest resource of that name. */
  async function resolveResourceHandle(handle: string, caller: Caller, wanted?: ResourceKind): Promise<ParsedHandle> {
    // A host may pass anything, and an empty name would match every resource.
    if (typeof handle !== "string" || handle === "") throw notAHandleError(String(handle));
    const parsed = parseHandle(handle);
    if (parsed !== undefined) {
      if (wanted !== undefined && parsed.kind !== wanted) throw wrongKindError(handle, wanted);
      return parsed;
    }
    for (const kind of wanted === undefined ? (["collection", "note"] as const) : [wanted]) {
      const all = await findByName(kind, handle, caller);
      const found = all.find((each) => isOwnResource(each, caller)) ?? all[0];
      if (found !== undefined) return { kind, id: found.id };
    }
    throw notAHandleError(handle);
  }

  async function resource(handle: string, caller: Caller): Promise<Resource> {
    const { kind, id } = await resolveResourceHandle(handle, caller);
    const found = await (kind === "note" ? store.noteFacts(id) : store.collection(id));
    return requireAccess(kind, found, handle, caller);
  }

  async function collection(handle: string, caller: Caller, version?: number): Promise<Collection> {
    const { id } = await resolveResourceHandle(handle, caller, "collection");
    const present = requireAccess("collection", await store.collection(id), handle, caller);
    if (version === undefined || version === present.version) return present;
    requireOwner(present, handle, caller);
    const earlier = await store.collectionVersion(id, version);
    if (earlier === undefined) throw versionNotFoundError(handle, version, present.version);
    return { ...present, version, ...earlier };
  }

  function createTransientRetention(): Retention {
    return { reach: "session", expiresAt: new Date(runtime.now().getTime() + expiresInMs).toISOString() };
  }

  function findByName(kind: ResourceKind, name: string, caller: Caller) {
    return listFirstUsable({ store, mayUse }, { kind, whose: toOwnerScope(caller), name }, caller, MAX_NAMESAKES);
  }

  /** The caller's own resource of that name. A saved one is not replaced by a derived one. */
  async function findReplaceable(kind: ResourceKind, { name, replaces = "transient" }: NoteLabel, caller: Caller) {
    if (name === undefined) return undefined;
    const own = (await findByName(kind, name, caller)).find((each) => isOwnResource(each, caller));
    return own?.expiresAt === undefined && replaces === "transient" ? undefined : own;
  }

  async function writeNote(maker: NoteAuthor, content: NewNote, label: NoteLabel): Promise<NoteFacts> {
    const origin = traceOrigin(maker, runtime.now());
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const present = await findReplaceable("note", label, maker.caller);
      if (present === undefined) break;
      const { id, version } = present;
      const replace = () => store.replaceNote(id, version, content, origin.at, listSources(origin));
      const replaced = await retryAfterExpiry(maker, replace);
      if (replaced !== undefined) return recordWrite(maker, replaced);
    }
    const id = await retryAfterExpiry(maker, () => store.addNotes(origin, [content], createTransientRetention()));
    const added = await store.noteFacts(id);
    if (added === undefined) throw handleNotFoundError(formatHandle("note", id));
    return recordWrite(maker, added);
  }

  function recordWrite<T extends Resource>(maker: NoteAuthor, written: T): T {
    record(maker.caller, createWrittenEvent(maker, written));
    return written;
  }

  async function fill(id: number, maker: NoteAuthor, portions: Portions, { onProgress, signal }: CollectOptions = {}) {
    const handle = formatHandle("collection", id);
    const at = runtime.now();
    let count = 0;
    signal?.throwIfAborted();
    for await (const entries of portions) {
      const origin = traceOrigin(maker, at);
      if ((await retryAfterExpiry(maker, () => store.append(id, entries, origin))) === undefined)
        throw handleNotFoundError(handle);
      count += entries.length;
      onProgress?.(handle, count);
      await yieldToEventLoop();
      // After the write, so that an aborted call keeps what has arrived.
      signal?.throwIfAborted();
    }
  }

  /** Removes the new collection again if there is no room to fill it. */
  async function fillNewCollection<T>(maker: NoteAuthor, label: NoteLabel, work: (id: number) => Promise<T>) {
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
    async note(handle, caller, version) {
      const { id } = await resolveResourceHandle(handle, caller, "note");
      const present = requireAccess("note", await store.note(id), handle, caller);
      if (version === undefined || version === present.version) return present;
      requireOwner(present, handle, caller);
      const earlier = await store.noteVersion(id, version);
      if (earlier === undefined) throw versionNotFoundError(handle, version, present.version);
      return earlier;
    },
    async *items(collection, { from = 0, to = Number.POSITIVE_INFINITY, signal } = {}) {
      const { id, version } = collection;
      const pageSize = estimatePageSize(collection, PORTION);
      for (let next = from; next < to; ) {
        signal?.throwIfAborted();
        const page = await store.items(id, { version, from: next, limit: Math.min(pageSize, to - next) });
        yield* page.filter(({ position }) => position < to);
        const last = page.at(-1);
        if (last === undefined) {
          // A collection that was removed in between must not look like a shorter one.
          if ((await store.collection(id)) === undefined) throw handleNotFoundError(formatHandle("collection", id));
          return;
        }
        next = last.position + 1;
        await yieldToEventLoop();
      }
    },
    write: (maker, content, label = {}) => writeNote(maker, { ...toJsonContent(content), ...pickLabel(label) }, label),
    writeFile: (maker, { bytes, mediaType, ...label }) =>
      writeNote(maker, { ...toFileContent(bytes, mediaType), ...pickLabel(label) }, label),
    async collect(maker, members, { name, properties, replaces, portion = PORTION.members, ...options } = {}) {
      const present = await findReplaceable("collection", { name, replaces }, maker.caller);
      // A replacement has no name of its own until it is complete.
      const label = present === undefined ? { name, properties } : { properties };
      return fillNewCollection(maker, label, async (id) => {
        let written = 0;
        const onProgress = (handle: string, count: number): void => {
          written = count;
          options.onProgress?.(handle, count);
        };
        onProgress(formatHandle("collection", id), 0);
        try {
          const portions = batchMembers(toEntries(members), { ...PORTION, members: portion });
          await fill(id, maker, portions, { ...options, onProgress });
        } catch (thrown) {
          if (written === 0) await store.remove("collection", id).catch(() => {});
          throw thrown;
        }
        if (options.isWhole?.() !== false) await store.complete(id);
        const replaced = present === undefined ? undefined : await store.replaceCollection(present.id, id, now());
        const collected = replaced ?? (await store.collection(id));
        if (collected === undefined) throw handleNotFoundError(formatHandle("collection", id));
        return recordWrite(maker, collected);
      });
    },
    async add(maker, handle, members, { portion, isWhole } = {}) {
      const { id } = requireOwner(await collection(handle, maker.caller), handle, maker.caller);
      if (portion !== undefined) {
        await fill(id, maker, batchMembers(toEntries(members), { ...PORTION, members: portion }));
        if (isWhole?.()) await store.complete(id);
        return recordWrite(maker, await collection(handle, maker.caller));
      }
      const portions = batchMembers(toEntries(members), PORTION);
      const [first, second] = [await portions.next(), await portions.next()];
      const all = prepend([first, second], portions);
      // One portion is written directly. More are staged in another collection, so that all are added or none.
      if (second.done) await fill(id, maker, all);
      else {
        await fillNewCollection(maker, {}, async (staged) => {
          await fill(staged, maker, all);
          if ((await store.absorb(id, staged, now())) === undefined) throw handleNotFoundError(handle);
        });
      }
      return recordWrite(maker, await collection(handle, maker.caller));
    },
    async takeOut(maker, handle, notes) {
      const { id } = requireOwner(await collection(handle, maker.caller), handle, maker.caller);
      const removed = await store.removeItems(id, notes, now());
      if (removed > 0) recordWrite(maker, await collection(handle, maker.caller));
      return removed;
    },
    async save(maker, asked, { reach, name }) {
      const own = requireOwner(await resource(asked, maker.caller), asked, maker.caller);
      const kind = getResourceKind(own);
      const handle = formatHandle(kind, own.id);
      const saved = await store.save(kind, own.id, { reach, name, at: now() });
      if (saved === undefined) throw handleNotFoundError(handle);
      const data = omitUndefined({ callId: maker.callId, handle, reach, name });
      record(maker.caller, { type: "resource.saved", data });
      return saved;
    },
    async remove(maker, asked) {
      const own = requireOwner(await resource(asked, maker.caller), asked, maker.caller);
      const kind = getResourceKind(own);
      const removed = await store.remove(kind, own.id);
      const data = { callId: maker.callId, handle: formatHandle(kind, own.id), ...removed };
      record(maker.caller, { type: "resource.removed", data });
      return removed;
    },
    async namesakes(resource, caller) {
      const { name } = resource;
      if (name === undefined) return [];
      const all = [...(await findByName("collection", name, caller)), ...(await findByName("note", name, caller))];
      const handles = all.map((each) => formatHandle(getResourceKind(each), each.id));
      const own = formatHandle(getResourceKind(resource), resource.id);
      return handles.filter((handle) => handle !== own).slice(0, LISTED_NAMESAKES);
    },
  };
}

/** The part of a caller that narrows queries to resources in reach. */
export function toOwnerScope({ tenant, user, actor, session }: Caller) {
  return { tenant, user: user?.id, actor, session };
}

function pickLabel({ name, properties }: NoteLabel) {
  return { name, properties };
}

async function* toEntries(members: CollectionMembers): AsyncGenerator<NewCollectionItem & { readonly bytes?: number }> {
  for await (const member of members) {
    if ("id" in member) yield member;
    else yield { ...toJsonContent(member.content), ...pickLabel(member) };
  }
}

async function* prepend<T>(read: readonly IteratorResult<T, void>[], rest: AsyncIterable<T>): AsyncGenerator<T> {
  for (const each of read) if (!each.done) yield each.value;
  yield* rest;
}
