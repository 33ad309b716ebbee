import { yieldToEventLoop } from "../core/async.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { handleOf, parseHandle, type Reference, type ResourceKind } from "./handle.ts";
import { notAHandle, notFound, noVersion, wrongKind } from "./handle-errors.ts";
import type { Collecting, Infospace, InfospaceParts, Label, Members } from "./infospace.ts";
import type { Entry, NewNote, Standing, StoredContent } from "./infospace-store.ts";
import { type Maker, originOf, writtenEvent } from "./maker.ts";
import { type Collection, type NoteFacts, type Origin, sourcesOf, withSources } from "./note.ts";
import { portions } from "./portions.ts";
import { isOutOfRoom } from "./quota.ts";
import { resourceAction } from "./resource.ts";
import { fileContent, jsonContent } from "./stored-content.ts";
import { usable } from "./usable.ts";

/** What is read or written at a time. In between others get their turn: SQLite answers at once, and would never let go. */
const PORTION = { members: 500, bytes: 1024 * 1024 };
/** How often a name is taken that somebody else changes at the same time. */
const ATTEMPTS = 8;
const NAMESAKES = 20;
const NAMESAKES_TOLD = 5;

export function createInfospace(parts: InfospaceParts): Infospace {
  const { store, runtime, expiresInMs, mayUse, lineage, note: record } = parts;
  const now = (): string => runtime.now().toISOString();

  /** What is written came from all that the call has read by now. */
  function originFor(maker: Maker, at: Date): Origin {
    return withSources(originOf(maker, at), lineage?.sources() ?? []);
  }

  /** What has expired is in nobody's way: it goes before a write is refused. */
  async function roomFor<T>({ caller }: Maker, write: () => Promise<T>): Promise<T> {
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

  function allowed<T extends NoteFacts | Collection>(
    kind: ResourceKind,
    found: T | undefined,
    asked: string,
    caller: Caller,
  ): T {
    const access = found === undefined ? "hidden" : mayUse(resourceAction(kind, found), caller);
    if (access === "allowed" && found !== undefined) {
      lineage?.add(sourcesOf(found.origin));
      return found;
    }
    if (typeof access === "object") throw new QmError("denied", access.refused, { details: { handle: asked } });
    throw notFound(asked);
  }

  /** Whoever may read something may not therefore change it, nor see what it was before it was shared. */
  function requireOwn(made: NoteFacts | Collection, asked: string, caller: Caller): void {
    if (isOwn(made, caller)) return;
    throw new QmError("denied", `${asked} is another's: you may use it as it is`, {
      hint: "Make a copy of your own and change that: infospace__create-collection, infospace__create-note.",
      details: { handle: asked },
    });
  }

  function isOwn(made: NoteFacts | Collection, caller: Caller): boolean {
    return mayUse(resourceAction(kindOf(made), { ...made, reach: "actor" }), caller) === "allowed";
  }

  /** What a handle says, or what the newest thing of that name is. */
  async function reference(asked: string, caller: Caller, wanted?: ResourceKind): Promise<Reference> {
    // A host may give anything, and no name at all would be that of everything.
    if (typeof asked !== "string" || asked === "") throw notAHandle(String(asked));
    const written = parseHandle(asked);
    if (written !== undefined) {
      if (wanted !== undefined && written.kind !== wanted) throw wrongKind(asked, wanted);
      return written;
    }
    for (const kind of ["collection", "note"] as const) {
      if (wanted !== undefined && kind !== wanted) continue;
      const found = await newest(kind, asked, caller);
      if (found !== undefined) return { kind, id: found.id };
    }
    throw notAHandle(asked);
  }

  async function resource(asked: string, caller: Caller): Promise<NoteFacts | Collection> {
    const { kind, id } = await reference(asked, caller);
    const found = await (kind === "note" ? store.noteFacts(id) : store.collection(id));
    return allowed(kind, found, asked, caller);
  }

  async function collection(asked: string, caller: Caller, version?: number): Promise<Collection> {
    const { id } = await reference(asked, caller, "collection");
    const present = allowed("collection", await store.collection(id), asked, caller);
    if (version === undefined || version === present.version) return present;
    requireOwn(present, asked, caller);
    const held = await store.collectionVersion(id, version);
    if (held === undefined) throw noVersion(asked, version, present.version);
    return { ...present, version, ...held };
  }

  function transient(): Standing {
    return { reach: "session", expiresAt: new Date(runtime.now().getTime() + expiresInMs).toISOString() };
  }

  /** Those of a name that the caller may use, the newest first. */
  async function called(
    kind: ResourceKind,
    name: string,
    caller: Caller,
  ): Promise<readonly (NoteFacts | Collection)[]> {
    const found: (NoteFacts | Collection)[] = [];
    for await (const each of usable({ store, mayUse }, { kind, whose: whoseOf(caller), name }, caller)) {
      found.push(each);
      if (found.length === NAMESAKES) break;
    }
    return found;
  }

  /** What a name means to the caller: the newest of their own, or else of what others share. */
  async function newest(kind: ResourceKind, name: string, caller: Caller): Promise<NoteFacts | Collection | undefined> {
    const all = await called(kind, name, caller);
    return all.find((each) => isOwn(each, caller)) ?? all[0];
  }

  /** What a name is given to again: one's own. What was saved is not replaced by what is only derived. */
  async function renewed(
    kind: ResourceKind,
    { name, replaces = "transient" }: Label,
    caller: Caller,
  ): Promise<NoteFacts | Collection | undefined> {
    if (name === undefined) return undefined;
    const own = (await called(kind, name, caller)).find((each) => isOwn(each, caller));
    return own?.expiresAt === undefined && replaces === "transient" ? undefined : own;
  }

  async function put(maker: Maker, content: NewNote, label: Label): Promise<NoteFacts> {
    const origin = originFor(maker, runtime.now());
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const present = (await renewed("note", label, maker.caller)) as NoteFacts | undefined;
      if (present === undefined) break;
      const { id, version } = present;
      const replaced = await roomFor(maker, () =>
        store.replaceNote(id, version, content, origin.at, sourcesOf(origin)),
      );
      if (replaced !== undefined) return recorded(maker, "note", replaced);
    }
    const id = await roomFor(maker, () => store.addNotes(origin, [content], transient()));
    const added = await store.noteFacts(id);
    if (added === undefined) throw notFound(handleOf("note", id));
    return recorded(maker, "note", added);
  }

  function recorded<T extends NoteFacts | Collection>(maker: Maker, kind: ResourceKind, made: T): T {
    record(maker.caller, writtenEvent(maker, kind, made));
    return made;
  }

  async function fill(
    id: number,
    maker: Maker,
    written: AsyncIterable<readonly Entry[]>,
    { onProgress, signal }: Pick<Collecting, "onProgress" | "signal"> = {},
  ): Promise<void> {
    const handle = handleOf("collection", id);
    const at = runtime.now();
    let count = 0;
    signal?.throwIfAborted();
    for await (const entries of written) {
      const origin = originFor(maker, at);
      if ((await roomFor(maker, () => store.append(id, entries, origin))) === undefined) throw notFound(handle);
      count += entries.length;
      onProgress?.(handle, count);
      await yieldToEventLoop();
      // What came is written first: whoever is stopped has it.
      signal?.throwIfAborted();
    }
  }

  /** A new collection without a name, or nothing: what there is no room for leaves no half of it. */
  async function begun<T>(maker: Maker, label: Label, work: (id: number) => Promise<T>): Promise<T> {
    const origin = originFor(maker, runtime.now());
    const id = await roomFor(maker, () => store.addCollection(origin, label, transient()));
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
      const { id } = await reference(asked, caller, "note");
      const present = allowed("note", await store.note(id), asked, caller);
      if (version === undefined || version === present.version) return present;
      requireOwn(present, asked, caller);
      const earlier = await store.noteVersion(id, version);
      if (earlier === undefined) throw noVersion(asked, version, present.version);
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
          if ((await store.collection(id)) === undefined) throw notFound(handleOf("collection", id));
          return;
        }
        at = last.position + 1;
        await yieldToEventLoop();
      }
    },
    write: (maker, content, label = {}) => put(maker, noteOf(jsonContent(content), label), label),
    writeFile: (maker, { bytes, mediaType, ...label }) =>
      put(maker, noteOf(fileContent(bytes, mediaType), label), label),
    async collect(maker, members, { name, properties, replaces, portion = PORTION.members, ...how } = {}) {
      const present = await renewed("collection", { name, replaces }, maker.caller);
      // What takes the place of another has no name of its own until it is all there.
      const label = present === undefined ? { name, properties } : { properties };
      return begun(maker, label, async (id) => {
        let written = 0;
        const onProgress = (handle: string, count: number): void => {
          written = count;
          how.onProgress?.(handle, count);
        };
        onProgress(handleOf("collection", id), 0);
        try {
          const all = portions(entriesOf(members), { ...PORTION, members: portion });
          await fill(id, maker, all, { ...how, onProgress });
        } catch (thrown) {
          if (written === 0) await store.remove("collection", id).catch(() => {});
          throw thrown;
        }
        if (how.isWhole?.() !== false) await store.complete(id);
        const replaced = present === undefined ? undefined : await store.replaceCollection(present.id, id, now());
        const made = replaced ?? (await store.collection(id));
        if (made === undefined) throw notFound(handleOf("collection", id));
        return recorded(maker, "collection", made);
      });
    },
    async add(maker, handle, members) {
      const present = await collection(handle, maker.caller);
      requireOwn(present, handle, maker.caller);
      const { id } = present;
      const all = portions(entriesOf(members), PORTION);
      const [first, second] = [await all.next(), await all.next()];
      const written = listed([first, second], all);
      // One portion is written at once. More are put together elsewhere first, so that all are added or none.
      if (second.done) await fill(id, maker, written);
      else {
        await begun(maker, {}, async (staged) => {
          await fill(staged, maker, written);
          if ((await store.absorb(id, staged, now())) === undefined) throw notFound(handle);
        });
      }
      return recorded(maker, "collection", await collection(handle, maker.caller));
    },
    async takeOut(maker, handle, notes) {
      const present = await collection(handle, maker.caller);
      requireOwn(present, handle, maker.caller);
      const { id } = present;
      const places = await store.removeItems(id, notes, now());
      if (places > 0) recorded(maker, "collection", await collection(handle, maker.caller));
      return places;
    },
    async save(maker, asked, { reach, name }) {
      const made = await resource(asked, maker.caller);
      requireOwn(made, asked, maker.caller);
      const [kind, id] = [kindOf(made), made.id];
      const handle = handleOf(kind, id);
      const saved = await store.save(kind, id, { reach, name, at: now() });
      if (saved === undefined) throw notFound(handle);
      const data = { callId: maker.callId, handle, reach, ...(name === undefined ? {} : { name }) };
      record(maker.caller, { type: "resource.saved", data });
      return saved;
    },
    async remove(maker, asked) {
      const made = await resource(asked, maker.caller);
      requireOwn(made, asked, maker.caller);
      const handle = handleOf(kindOf(made), made.id);
      const removed = await store.remove(kindOf(made), made.id);
      record(maker.caller, { type: "resource.removed", data: { callId: maker.callId, handle, ...removed } });
      return removed;
    },
    async namesakes(resource, caller) {
      const { name } = resource;
      if (name === undefined) return [];
      const all = [...(await called("collection", name, caller)), ...(await called("note", name, caller))];
      return all
        .filter((each) => each.id !== resource.id || kindOf(each) !== kindOf(resource))
        .slice(0, NAMESAKES_TOLD)
        .map((each) => handleOf(kindOf(each), each.id));
    },
  };
}

/** Of a caller, what decides on which resources are within reach. */
export function whoseOf({ tenant, user, actor, session }: Caller) {
  return { tenant, user: user?.id, actor, session };
}

function noteOf(content: StoredContent, { name, properties }: Label): NewNote {
  return { ...content, name, properties };
}

async function* entriesOf(members: Members): AsyncGenerator<Entry & { readonly bytes?: number }> {
  for await (const member of members) {
    if ("id" in member) yield member;
    else yield { ...jsonContent(member.content), name: member.name, properties: member.properties };
  }
}

/** What was read already, then the rest. */
async function* listed<T>(read: readonly IteratorResult<T, void>[], rest: AsyncIterable<T>): AsyncGenerator<T> {
  for (const each of read) if (!each.done) yield each.value;
  yield* rest;
}

function kindOf(made: NoteFacts | Collection): ResourceKind {
  return "count" in made ? "collection" : "note";
}
