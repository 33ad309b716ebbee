import type { Caller } from "../../core/caller.ts";
import { getOwn, type JsonObject } from "../../core/json.ts";
import { toOwnerScope } from "../create-infospace.ts";
import type { InfospaceOptions } from "../infospace.ts";
import type { InfospaceStore } from "../infospace-store.ts";
import type { Collection, Note, NoteOrigin } from "../note.ts";
import { listUsable, toResourceAction } from "../resource-access.ts";
import type { DocumentSource } from "./documents.ts";
import { extractNoteText, type NoteDocument, PASSAGE_LENGTH, type ReadableText, toLabels } from "./passage.ts";

export type SearchableStore = Pick<
  InfospaceStore,
  "mark" | "contents" | "note" | "noteFacts" | "notes" | "collection" | "items" | "positions" | "list" | "count"
>;

export interface DocumentSourceOptions {
  readonly store: SearchableStore;
  readonly mayUse: InfospaceOptions["mayUse"];
  readonly allows?: ((origin: NoteOrigin, caller: Caller) => boolean) | undefined;
  /** How many characters of a note are searched. */
  readonly textLimit: number;
}

/** All notes that the caller may use. */
export function createNoteSource(options: DocumentSourceOptions, caller: Caller): DocumentSource {
  const { store, mayUse, allows, textLimit } = options;
  const scope = toOwnerScope(caller);
  return {
    kind: "note",
    mark: () => store.mark(scope),
    marks: () => store.contents(scope, { allows: allows && ((origin) => allows(origin, caller)) }),
    async read(ids) {
      const notes = await store.notes(ids);
      const allowed = notes.filter((note) => mayUse(toResourceAction("note", note), caller) === "allowed");
      return allowed.map((note) => toDocument(note, textLimit));
    },
  };
}

/** The notes of a collection. Access to the collection was checked before. */
export function createItemSource({ store, textLimit }: DocumentSourceOptions, id: number): DocumentSource {
  return {
    kind: "note",
    mark: () => store.mark({ collection: id }),
    marks: () => store.contents({ collection: id }),
    read: async (ids) => (await store.notes(ids)).map((note) => toDocument(note, textLimit)),
  };
}

const PAGE = 500;
/** Older ones are only counted. */
const MAX_COLLECTIONS = 10_000;
const FIRST_ITEMS = 5;
const ITEM_LIMIT = Math.floor(PASSAGE_LENGTH / FIRST_ITEMS);

/** All collections that the caller may use, by name, origin and first notes. */
export function createCollectionSource({ store, mayUse }: DocumentSourceOptions, caller: Caller): DocumentSource {
  const scope = toOwnerScope(caller);
  const firstNotes = new Map<number, readonly number[]>();
  let listed = new Map<number, Collection>();
  let left = 0;

  return {
    kind: "collection",
    left: () => left,
    mark: () => store.mark(scope),
    async marks() {
      const found = new Map<number, Collection>();
      let more = 0;
      for await (const each of listUsable({ store, mayUse }, { kind: "collection", whose: scope }, caller, PAGE)) {
        if (found.size < MAX_COLLECTIONS) found.set(each.id, each);
        else more++;
      }
      listed = found;
      left = more;
      const contents = await store.contents(scope);
      return new Map(
        [...found.values()].map(({ id, name, version, count, changedAt }) => {
          const items = (firstNotes.get(id) ?? []).map((note) => contents.get(note) ?? "");
          return [id, [version, count, changedAt, name, ...items].join(" ")];
        }),
      );
    },
    async read(ids) {
      const documents: NoteDocument[] = [];
      for (const id of ids) {
        const collection = listed.get(id);
        const access = collection && mayUse(toResourceAction("collection", collection), caller);
        if (collection === undefined || access !== "allowed") continue;
        const { name, properties, version, origin } = collection;
        const items = await store.items(id, { version, from: 0, limit: FIRST_ITEMS });
        const noteIds = items.map((item) => item.id);
        firstNotes.set(id, noteIds);
        const texts = items.map(({ content }) => extractNoteText(content, ITEM_LIMIT).text);
        const hash = [version, ...items.map((item) => item.hash)].join(" ");
        const text = [origin.action, ...texts].join("\n");
        documents.push({ id, hash, name, labels: toLabels(properties), text, whole: true });
      }
      return documents;
    },
  };
}

function toDocument(note: Note, limit: number): NoteDocument {
  const { id, hash, name, properties } = note;
  return { id, hash, name, labels: toLabels(properties), ...getNoteText(note, limit) };
}

/** The searchable text of a note, for a file its media type. */
export function getNoteText({ format, content }: Pick<Note, "format" | "content">, limit: number): ReadableText {
  if (format !== "file") return extractNoteText(content, limit);
  const mediaType = getOwn(content as JsonObject, "media_type");
  return { text: typeof mediaType === "string" ? mediaType : "", whole: true };
}
