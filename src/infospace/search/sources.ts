import type { Caller } from "../../core/caller.ts";
import { getOwn, type Json, type JsonObject } from "../../core/json.ts";
import { whoseOf } from "../create-infospace.ts";
import type { InfospaceParts } from "../infospace.ts";
import type { InfospaceStore } from "../infospace-store.ts";
import type { Collection, Note, NoteFacts, Origin } from "../note.ts";
import { resourceAction } from "../resource.ts";
import { usable } from "../usable.ts";
import type { Source } from "./documents.ts";
import { labelsOf, PASSAGE, type Readable, readable } from "./note-text.ts";
import type { Document } from "./passage.ts";

export type SearchedStore = Pick<
  InfospaceStore,
  "mark" | "contents" | "note" | "noteFacts" | "notes" | "collection" | "items" | "positions" | "list" | "count"
>;

export interface SourceParts {
  readonly store: SearchedStore;
  readonly mayUse: InfospaceParts["mayUse"];
  readonly allows?: ((origin: Origin, caller: Caller) => boolean) | undefined;
  /** How much of one text is looked at. */
  readonly textLimit: number;
}

/** Every note that a caller may use. */
export function callersNotes({ store, mayUse, allows, textLimit }: SourceParts, caller: Caller): Source {
  const whose = whoseOf(caller);
  return {
    kind: "note",
    mark: () => store.mark(whose),
    marks: () => store.contents(whose, { allows: allows && ((origin) => allows(origin, caller)) }),
    async read(ids) {
      const notes = await store.notes(ids);
      const allowed = notes.filter((note) => mayUse(resourceAction("note", note), caller) === "allowed");
      return allowed.map((note) => noteDocument(note, textLimit));
    },
  };
}

/** What is in a collection: who may use that may use these. */
export function itemsOf({ store, textLimit }: SourceParts, { id }: Pick<Collection, "id">): Source {
  return {
    kind: "note",
    mark: () => store.mark({ collection: id }),
    marks: () => store.contents({ collection: id }),
    read: async (ids) => (await store.notes(ids)).map((note) => noteDocument(note, textLimit)),
  };
}

const PAGE = 500;
/** More than anybody has made by hand; what is older is counted. */
const COLLECTIONS = 10_000;
const FIRST_ITEMS = 5;
const ITEM_LIMIT = Math.floor(PASSAGE / FIRST_ITEMS);

/** Every collection that a caller may use, by what it is called, where it comes from and what its first notes say. */
export function callersCollections({ store, mayUse }: SourceParts, caller: Caller): Source {
  const whose = whoseOf(caller);
  const firsts = new Map<number, readonly number[]>();
  let listed = new Map<number, Collection>();
  let left = 0;

  async function list(): Promise<void> {
    const found = new Map<number, Collection>();
    let more = 0;
    for await (const collection of usable({ store, mayUse }, { kind: "collection", whose }, caller, PAGE)) {
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
      const documents: Document[] = [];
      for (const id of ids) {
        const collection = listed.get(id);
        if (collection === undefined || mayUse(resourceAction("collection", collection), caller) !== "allowed")
          continue;
        const items = await store.items(id, { version: collection.version, from: 0, limit: FIRST_ITEMS });
        firsts.set(
          id,
          items.map((item) => item.id),
        );
        const { action } = collection.origin;
        const text = [action, ...items.map(({ content }) => readable(content, ITEM_LIMIT).text)].join("\n");
        const { name, properties, version } = collection;
        const hash = [version, ...items.map((item) => item.hash)].join(" ");
        documents.push({ id, hash, name, labels: labelsOf(properties), text, whole: true });
      }
      return documents;
    },
  };
}

/** The newest that a caller may use, without the notes that were made for a collection. */
export async function newest<Kind extends "note" | "collection">(
  { store, mayUse }: Pick<SourceParts, "store" | "mayUse">,
  kind: Kind,
  caller: Caller,
  limit: number,
): Promise<readonly Listed[Kind][]> {
  const found: Listed[Kind][] = [];
  for await (const each of usable({ store, mayUse }, { kind, whose: whoseOf(caller) }, caller)) {
    found.push(each as Listed[Kind]);
    if (found.length === limit) break;
  }
  return found;
}

interface Listed {
  readonly note: NoteFacts;
  readonly collection: Collection;
}

function noteDocument(note: Note, limit: number): Document {
  const { id, hash, name, properties } = note;
  return { id, hash, name, labels: labelsOf(properties), ...noteText(note, limit) };
}

/** What a note is found by. Of a file that is what kind of file it is. */
export function noteText({ format, content }: Pick<Note, "format" | "content">, limit: number): Readable {
  if (format !== "file") return readable(content, limit);
  const mediaType: Json | undefined = getOwn(content as JsonObject, "media_type");
  return { text: typeof mediaType === "string" ? mediaType : "", whole: true };
}
