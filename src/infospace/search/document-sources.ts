import type { Caller } from "../../core/caller.ts";
import { getOwn, type Json, type JsonObject } from "../../core/json.ts";
import { toOwnerScope } from "../create-infospace.ts";
import type { InfospaceOptions } from "../infospace.ts";
import type { InfospaceStore } from "../infospace-store.ts";
import type { Collection, Note, NoteFacts, NoteOrigin } from "../note.ts";
import { listUsable, toResourceAction } from "../resource-access.ts";
import type { DocumentSource } from "./documents.ts";
import type { NoteDocument } from "./passage.ts";
import { extractNoteText, PASSAGE_LENGTH, type ReadableText, toLabels } from "./passage.ts";

export type SearchableStore = Pick<
  InfospaceStore,
  "mark" | "contents" | "note" | "noteFacts" | "notes" | "collection" | "items" | "positions" | "list" | "count"
>;

export interface DocumentSourceOptions {
  readonly store: SearchableStore;
  readonly mayUse: InfospaceOptions["mayUse"];
  readonly allows?: ((origin: NoteOrigin, caller: Caller) => boolean) | undefined;
  /** How much of one text is looked at. */
  readonly textLimit: number;
}

/** Every note that a caller may use. */
export function createNoteSource(
  { store, mayUse, allows, textLimit }: DocumentSourceOptions,
  caller: Caller,
): DocumentSource {
  const whose = toOwnerScope(caller);
  return {
    kind: "note",
    mark: () => store.mark(whose),
    marks: () => store.contents(whose, { allows: allows && ((origin) => allows(origin, caller)) }),
    async read(ids) {
      const notes = await store.notes(ids);
      const allowed = notes.filter((note) => mayUse(toResourceAction("note", note), caller) === "allowed");
      return allowed.map((note) => toDocument(note, textLimit));
    },
  };
}

/** What is in a collection: who may use that may use these. */
export function createItemSource(
  { store, textLimit }: DocumentSourceOptions,
  { id }: Pick<Collection, "id">,
): DocumentSource {
  return {
    kind: "note",
    mark: () => store.mark({ collection: id }),
    marks: () => store.contents({ collection: id }),
    read: async (ids) => (await store.notes(ids)).map((note) => toDocument(note, textLimit)),
  };
}

const PAGE = 500;
/** More than anybody has made by hand; what is older is counted. */
const COLLECTIONS = 10_000;
const FIRST_ITEMS = 5;
const ITEM_LIMIT = Math.floor(PASSAGE_LENGTH / FIRST_ITEMS);

/** Every collection that a caller may use, by what it is called, where it comes from and what its first notes say. */
export function createCollectionSource({ store, mayUse }: DocumentSourceOptions, caller: Caller): DocumentSource {
  const whose = toOwnerScope(caller);
  const firsts = new Map<number, readonly number[]>();
  let listed = new Map<number, Collection>();
  let left = 0;

  async function list(): Promise<void> {
    const found = new Map<number, Collection>();
    let more = 0;
    for await (const collection of listUsable({ store, mayUse }, { kind: "collection", whose }, caller, PAGE)) {
      if (found.size < COLLECTIONS) found.set(collection.id, collection);
      else more++;
    }
    listed = found;
    left = more;
  }

  return {
    kind: "collection",
    left: () => left,
    mark: () => store.mark(whose),
    async marks() {
      await list();
      const contents = await store.contents(whose);
      return new Map(
        [...listed.values()].map(({ id, name, version, count, changedAt }) => {
          const items = (firsts.get(id) ?? []).map((note) => contents.get(note) ?? "");
          return [id, [version, count, changedAt, name, ...items].join(" ")];
        }),
      );
    },
    async read(ids) {
      const documents: NoteDocument[] = [];
      for (const id of ids) {
        const collection = listed.get(id);
        if (collection === undefined || mayUse(toResourceAction("collection", collection), caller) !== "allowed")
          continue;
        const items = await store.items(id, { version: collection.version, from: 0, limit: FIRST_ITEMS });
        firsts.set(
          id,
          items.map((item) => item.id),
        );
        const { action } = collection.origin;
        const text = [action, ...items.map(({ content }) => extractNoteText(content, ITEM_LIMIT).text)].join("\n");
        const { name, properties, version } = collection;
        const hash = [version, ...items.map((item) => item.hash)].join(" ");
        documents.push({ id, hash, name, labels: toLabels(properties), text, whole: true });
      }
      return documents;
    },
  };
}

/** The newest that a caller may use, without the notes that were made for a collection. */
export async function listNewest<Kind extends "note" | "collection">(
  { store, mayUse }: Pick<DocumentSourceOptions, "store" | "mayUse">,
  kind: Kind,
  caller: Caller,
  limit: number,
): Promise<readonly ListedResource[Kind][]> {
  const found: ListedResource[Kind][] = [];
  for await (const each of listUsable({ store, mayUse }, { kind, whose: toOwnerScope(caller) }, caller)) {
    found.push(each as ListedResource[Kind]);
    if (found.length === limit) break;
  }
  return found;
}

interface ListedResource {
  readonly note: NoteFacts;
  readonly collection: Collection;
}

function toDocument(note: Note, limit: number): NoteDocument {
  const { id, hash, name, properties } = note;
  return { id, hash, name, labels: toLabels(properties), ...getNoteText(note, limit) };
}

/** What a note is found by. Of a file that is what kind of file it is. */
export function getNoteText({ format, content }: Pick<Note, "format" | "content">, limit: number): ReadableText {
  if (format !== "file") return extractNoteText(content, limit);
  const mediaType: Json | undefined = getOwn(content as JsonObject, "media_type");
  return { text: typeof mediaType === "string" ? mediaType : "", whole: true };
}
