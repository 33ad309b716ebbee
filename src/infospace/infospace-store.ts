import { hash } from "node:crypto";
import type { Json, JsonObject } from "../core/json.ts";
import type {
  Collection,
  CollectionItem,
  Note,
  NoteFacts,
  NoteFormat,
  NoteOrigin,
  NoteVersion,
  NoteVisibility,
  ResourceKind,
} from "./note.ts";
import type { Quota, QuotaUsage } from "./quota.ts";

/** What comes, in lists of so many at most, or of about so many bytes; none is empty. What came before a break comes as well. */
export async function* batchMembers<T extends object>(
  source: AsyncIterable<T & { readonly bytes?: number }>,
  limits: { readonly members: number; readonly bytes: number },
): AsyncGenerator<readonly T[]> {
  let held: T[] = [];
  let bytes = 0;
  try {
    for await (const each of source) {
      held.push(each);
      bytes += each.bytes ?? 0;
      if (held.length < limits.members && bytes < limits.bytes) continue;
      yield held;
      held = [];
      bytes = 0;
    }
  } catch (thrown) {
    if (held.length > 0) yield held;
    throw thrown;
  }
  if (held.length > 0) yield held;
}

/** Whose view of the store is asked for. What is reached is decided by the policy; this only keeps what is asked for small. */
export interface OwnerScope {
  readonly tenant?: string | undefined;
  readonly user?: string | undefined;
  readonly actor: string;
  readonly session: string;
}

/** A note's content as it is kept: JSON text, and the bytes of a file. */
export interface StoredContent {
  readonly format: NoteFormat;
  /** JSON. Of a file: `{ media_type, size }`, without the bytes. */
  readonly text: string;
  readonly file?: Uint8Array;
  readonly bytes: number;
  readonly hash: string;
}

export interface NewNote extends StoredContent {
  readonly name?: string | undefined;
  readonly properties?: JsonObject | undefined;
}

/** How long something is kept, and for whom. */
export interface Retention {
  readonly reach: NoteVisibility;
  /** Absent: for good. */
  readonly expiresAt?: string | undefined;
}

export interface NewCollection {
  readonly name?: string | undefined;
  readonly properties?: JsonObject | undefined;
}

/** What goes into a collection: notes that are there, by id, or new ones that are made for it. */
export type NewCollectionItem = { readonly id: number } | NewNote;

export interface ResourceQuery {
  readonly kind: ResourceKind;
  /** Absent: everybody's, for operators. */
  readonly whose?: OwnerScope | undefined;
  readonly name?: string | undefined;
  readonly tenant?: string | undefined;
  readonly session?: string | undefined;
  readonly action?: string | undefined;
  readonly callId?: string | undefined;
  /** `true`: only what was saved; `false`: only what was not. */
  readonly saved?: boolean | undefined;
  /** Also notes that were made for a collection. */
  readonly parts?: boolean | undefined;
  /** Only what has a smaller id: the newest comes first. */
  readonly before?: number | undefined;
  readonly limit: number;
}

/** What a collection holds, page by page. */
interface ItemQuery {
  /** Absent: the newest. */
  readonly version?: number | undefined;
  /** The position of the first. */
  readonly from: number;
  readonly limit: number;
}

/** Something that is to be kept for good, and for whom. */
export interface SaveRequest {
  readonly kind: ResourceKind;
  readonly id: number;
  readonly reach: NoteVisibility;
  readonly name?: string | undefined;
  readonly at: string;
}

/** How many earlier versions a note has at most. */
export const MAX_VERSIONS = 50;

/**
 * Where notes and collections are kept. Ids count up and are never used twice. Everything that a method does, it does in one
 * transaction: a process that dies leaves all of it or nothing. What has expired is not there, whether it was removed or not.
 */
export interface InfospaceStore {
  /** Notes of one origin, with consecutive ids; answers the first. */
  addNotes(origin: NoteOrigin, notes: readonly NewNote[], standing: Retention): Promise<number>;
  note(id: number): Promise<Note | undefined>;
  noteFacts(id: number): Promise<NoteFacts | undefined>;
  /** Those that are there, in no order. */
  notes(ids: readonly number[]): Promise<readonly Note[]>;
  /**
   * Puts new content in the place of the old, which goes to the history; of that, the newest `VERSIONS_KEPT` stay. The note
   * keeps its origin, and gains `sources`, the actions that the new content came from. Answers the note as it is now; undefined where it
   * is not there, or has another version than `version`.
   */
  replaceNote(
    id: number,
    version: number,
    content: NewNote,
    at: string,
    sources?: readonly string[],
  ): Promise<NoteFacts | undefined>;
  /** The earlier versions that are kept, the oldest first. */
  history(id: number): Promise<readonly NoteVersion[]>;
  /** The content of an earlier version that is kept, or of the present one. */
  noteVersion(id: number, version: number): Promise<Note | undefined>;

  /** An empty one, not complete. */
  addCollection(origin: NoteOrigin, collection: NewCollection, standing: Retention): Promise<number>;
  collection(id: number): Promise<Collection | undefined>;
  /** What a version of it held, as far as that is there. Undefined: there is no such version. */
  collectionVersion(id: number, version: number): Promise<Pick<Collection, "count" | "bytes"> | undefined>;
  /**
   * Appends to the newest version, in this order; new notes get the collection's standing and the given origin, and what is
   * there already gets at least its reach and is kept as long. The collection gains the actions that all of it came from.
   * Answers how it is now; undefined where it is not there.
   */
  append(id: number, entries: readonly NewCollectionItem[], origin: NoteOrigin): Promise<Collection | undefined>;
  /**
   * What `by` holds is appended to the newest version of the collection, all of it at once, and `by` is gone. Answers how it is
   * now; undefined where one of them is not there.
   */
  absorb(id: number, by: number, at: string): Promise<Collection | undefined>;
  /** Nothing more comes while it is filled. */
  complete(id: number): Promise<void>;
  /**
   * What `by` holds becomes the next version of the collection, and `by` is gone. The version before stays in the history.
   * Undefined where one of them is not there.
   */
  replaceCollection(id: number, by: number, at: string): Promise<Collection | undefined>;
  /** Takes notes out, wherever they stand: a next version. Answers how many places that were. */
  removeItems(id: number, notes: readonly number[], at: string): Promise<number>;
  items(id: number, query: ItemQuery): Promise<readonly CollectionItem[]>;
  /** Where notes stand in a version of it, the first place of each. Those that are not in it, or not there, are left out. */
  positions(id: number, version: number, notes: readonly number[]): Promise<ReadonlyMap<number, number>>;

  /** Kept for good and for whom; of a collection, all that is in it as well. Undefined where it is not there. */
  save(
    kind: ResourceKind,
    id: number,
    how: { readonly reach: NoteVisibility; readonly name?: string | undefined; readonly at: string },
  ): Promise<NoteFacts | Collection | undefined>;
  /** `save` of each, in this order, and all of it or nothing. What is not there is passed over. */
  saveAll(list: readonly SaveRequest[]): Promise<void>;
  /**
   * A note goes from every collection as well; of a collection, the notes that were made for it and are nowhere else go with
   * it. Answers what was removed.
   */
  remove(kind: ResourceKind, id: number): Promise<{ readonly notes: number; readonly collections: number }>;
  /** Removes what has expired by then. */
  expire(at: string): Promise<{ readonly notes: number; readonly collections: number }>;
  /** The newest first. */
  list(query: ResourceQuery & { readonly kind: "note" }): Promise<readonly NoteFacts[]>;
  list(query: ResourceQuery & { readonly kind: "collection" }): Promise<readonly Collection[]>;
  /** How many `list` would answer without a limit. */
  count(query: Omit<ResourceQuery, "limit" | "before">): Promise<number>;
  /**
   * Changes whenever a note or collection that may be within reach, or a note of the named collection, is added, changed or
   * removed. Cheap to ask.
   */
  mark(of: OwnerScope | { readonly collection: number }): Promise<string>;
  /**
   * Every note within reach, or of the named collection, by id, with a text that changes when what it says, its name or its
   * properties do. For indexes.
   */
  contents(
    of: OwnerScope | { readonly collection: number },
    options?: {
      /** Of what is within reach, only what came from where this allows. Asked once for each different origin. */
      readonly allows?: ((origin: NoteOrigin) => boolean) | undefined;
    },
  ): Promise<ReadonlyMap<number, string>>;

  /** Stores the actions that a call has data from while it waits. The same call again adds to them. */
  holdSources(callId: string, sources: readonly string[]): Promise<void>;
  /** Those that were stored for a call. Of one that is unknown, none. */
  heldSources(callId: string): Promise<readonly string[]>;

  /** How much the session, the user and the tenant use, as far as they use anything. Absent: every tenant. */
  usage(of?: OwnerScope): Promise<readonly QuotaUsage[]>;
  /**
   * The same store within limits: whatever would pass one throws `quota_exceeded` and writes nothing. The check and the write
   * are one transaction, so that several processes cannot pass it together.
   */
  limitedTo(quota: Quota): InfospaceStore;
}

/** A JSON value as a note keeps it. */
export function toJsonContent(content: Json): StoredContent {
  const text = JSON.stringify(content);
  return {
    format: typeof content === "string" ? "text" : "json",
    text,
    bytes: Buffer.byteLength(text),
    hash: hash("sha256", text, "hex"),
  };
}

/** Bytes as a note keeps them. */
export function toFileContent(file: Uint8Array, mediaType: string): StoredContent {
  return {
    format: "file",
    text: JSON.stringify({ media_type: mediaType, size: file.byteLength }),
    file,
    bytes: file.byteLength,
    hash: hash("sha256", file, "hex"),
  };
}
