import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { CollectionMember, CollectionMembers, CollectOptions, Infospace } from "./infospace.ts";
import type { NewNote } from "./infospace-store.ts";
import { toFileContent, toJsonContent } from "./infospace-store.ts";
import type { Collection, Note, NoteFacts } from "./note.ts";
import { formatHandle, parseHandle } from "./note.ts";
import type { NoteAuthor } from "./provenance.ts";

export const testCaller: Caller = { actor: "assistant", session: "s1", tenant: "acme", user: { id: "ada" } };

export function createTestAuthor(caller: Caller, action = "tool__list"): NoteAuthor {
  return { caller, action, callId: "call-1" };
}

/** An infospace in memory where everybody of a session may use everything of it, and there is one portion a member. */
export function createMemoryInfospace(): Infospace & {
  readonly notes: Map<number, Note>;
  contents(handle: string): Json[];
} {
  const notes = new Map<number, Note>();
  const collections = new Map<number, Held>();
  let nextId = 1;
  const origin = ({ caller: { actor, session, tenant, user }, action, callId }: NoteAuthor) => ({
    action,
    callId,
    actor,
    session,
    ...(tenant === undefined ? {} : { tenant }),
    ...(user === undefined ? {} : { user: user.id }),
    at: NOW,
  });
  const common = (maker: NoteAuthor, name: string | undefined) => ({
    ...(name === undefined ? {} : { name }),
    properties: {},
    origin: origin(maker),
    reach: "session" as const,
    version: 1,
    changedAt: NOW,
    expiresAt: LATER,
  });

  function addNote(maker: NoteAuthor, { text, file, ...facts }: NewNote): Note {
    const id = nextId++;
    const base64 = file === undefined ? {} : { base64: Buffer.from(file).toString("base64") };
    const value = JSON.parse(text) as Json;
    const content = file === undefined ? value : { ...(value as object), ...base64 };
    const { format, bytes, hash, properties = {} } = facts;
    const note = { ...common(maker, facts.name), properties, id, format, bytes, hash, content };
    notes.set(id, note);
    return note;
  }

  function found<T extends NoteFacts | Held>(all: ReadonlyMap<number, T>, handle: string, caller: Caller): T {
    const resource = all.get(parseHandle(handle)?.id ?? 0);
    if (resource?.origin.session === caller.session) return resource;
    throw new QmError("not_found", `there is no ${handle} here`);
  }

  async function fill(
    id: number,
    maker: NoteAuthor,
    members: CollectionMembers,
    { onProgress, signal }: CollectOptions = {},
  ): Promise<void> {
    for await (const member of members) {
      signal?.throwIfAborted();
      const { items, ...collection } = collections.get(id) as Held;
      const note =
        "id" in member
          ? (notes.get(member.id) as Note)
          : addNote(maker, { ...toJsonContent(member.content), ...toLabel(member) });
      const count = collection.count + 1;
      collections.set(id, { ...collection, items: [...items, note.id], count, bytes: collection.bytes + note.bytes });
      onProgress?.(formatHandle("collection", id), count);
    }
  }

  const collectionAt = (handle: string, caller: Caller) => found(collections, handle, caller);
  return {
    notes,
    contents: (handle) =>
      (collections.get(parseHandle(handle)?.id ?? 0)?.items ?? []).map((id) => notes.get(id)?.content ?? null),
    note: async (handle, caller) => found(notes, handle, caller),
    collection: async (handle, caller) => collectionAt(handle, caller),
    resource: async (handle, caller) =>
      parseHandle(handle)?.kind === "collection" ? collectionAt(handle, caller) : found(notes, handle, caller),
    async *items({ id }, { from = 0, to = Number.POSITIVE_INFINITY, signal } = {}) {
      for (const [position, noteId] of (collections.get(id)?.items ?? []).entries()) {
        signal?.throwIfAborted();
        const note = notes.get(noteId);
        if (note === undefined || position < from || position >= to) continue;
        const { content, bytes, hash } = note;
        yield { position, id: noteId, content, bytes, hash };
      }
    },
    write: async (maker, content, label = {}) => addNote(maker, { ...toJsonContent(content), ...label }),
    writeFile: async (maker, { bytes, mediaType, ...label }) =>
      addNote(maker, { ...toFileContent(bytes, mediaType), ...label }),
    async collect(maker, members, how = {}) {
      const id = nextId++;
      collections.set(id, { ...common(maker, how.name), id, bytes: 0, count: 0, complete: false, items: [] });
      how.onProgress?.(formatHandle("collection", id), 0);
      try {
        await fill(id, maker, members, how);
      } catch (thrown) {
        if (collections.get(id)?.count === 0) collections.delete(id);
        throw thrown;
      }
      const made = { ...(collections.get(id) as Held), complete: how.isWhole?.() !== false };
      collections.set(id, made);
      return made;
    },
    async add(maker, handle, members, { isWhole } = {}) {
      const { id } = collectionAt(handle, maker.caller);
      await fill(id, maker, members);
      if (isWhole?.()) collections.set(id, { ...(collections.get(id) as Held), complete: true });
      return collectionAt(handle, maker.caller);
    },
    async takeOut({ caller }, handle, ids) {
      const collection = collectionAt(handle, caller);
      const items = collection.items.filter((id) => !ids.includes(id));
      collections.set(collection.id, { ...collection, items, count: items.length, version: collection.version + 1 });
      return collection.items.length - items.length;
    },
    async save({ caller }, handle, { reach, name }) {
      const named = name === undefined ? {} : { name };
      if (parseHandle(handle)?.kind === "collection") {
        const { expiresAt: _, ...kept } = found(collections, handle, caller);
        collections.set(kept.id, { ...kept, reach, ...named });
        return found(collections, handle, caller);
      }
      const { expiresAt: _, ...kept } = found(notes, handle, caller);
      notes.set(kept.id, { ...kept, reach, ...named });
      return found(notes, handle, caller);
    },
    async remove({ caller }, handle) {
      const reference = parseHandle(handle);
      if (reference?.kind !== "collection") {
        const { id } = found(notes, handle, caller);
        notes.delete(id);
        // Its place stays empty.
        for (const [key, held] of collections) {
          const places = held.items.filter((item) => item === id).length;
          if (places > 0) collections.set(key, { ...held, count: held.count - places });
        }
        return { notes: 1, collections: 0 };
      }
      const { id, items } = collectionAt(handle, caller);
      collections.delete(id);
      for (const item of items) notes.delete(item);
      return { notes: items.length, collections: 1 };
    },
    async namesakes({ id, name, origin }) {
      return [...collections.values(), ...notes.values()]
        .filter((each) => each.name === name && each.origin.session === origin.session && each.id !== id)
        .map((each) => formatHandle("items" in each ? "collection" : "note", each.id));
    },
  };
}

interface Held extends Collection {
  readonly items: readonly number[];
}

const NOW = "2026-11-15T12:00:00.000Z";
const LATER = "2026-11-16T12:00:00.000Z";

function toLabel({ name, properties }: Exclude<CollectionMember, { readonly id: number }>) {
  return { name, properties };
}
