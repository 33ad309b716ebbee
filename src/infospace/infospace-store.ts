import type { JsonObject } from "../core/json.ts";
import type { ResourceKind } from "./handle.ts";
import type { Collection, Item, Note, NoteFacts, NoteFormat, NoteVersion, Origin, Reach } from "./note.ts";
import type { Quota, Usage } from "./quota.ts";

/** Whose view of the store is asked for. What is reached is decided by the policy; this only keeps what is asked for small. */
export interface Whose {
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
export interface Standing {
  readonly reach: Reach;
  /** Absent: for good. */
  readonly expiresAt?: string | undefined;
}

export interface NewCollection {
  readonly name?: string | undefined;
  readonly properties?: JsonObject | undefined;
}

/** What goes into a collection: notes that are there, by id, or new ones that are made for it. */
export type Entry = { readonly id: number } | NewNote;

export interface ResourceQuery {
  readonly kind: ResourceKind;
  /** Absent: everybody's, for operators. */
  readonly whose?: Whose | undefined;
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
export interface ItemQuery {
  /** Absent: the newest. */
  readonly version?: number | undefined;
  /** The position of the first. */
  readonly from: number;
  readonly limit: number;
}

/** Something that is to be kept for good, and for whom. */
export interface Saving {
  readonly kind: ResourceKind;
  readonly id: number;
  readonly reach: Reach;
  readonly name?: string | undefined;
  readonly at: string;
}

/** How many earlier versions a note has at most. */
export const VERSIONS_KEPT = 50;

/**
 * Where notes and collections are kept. Ids count up and are never used twice. Everything that a method does, it does in one
 * transaction: a process that dies leaves all of it or nothing. What has expired is not there, whether it was removed or not.
 */
export interface InfospaceStore {
  /** Notes of one origin, with consecutive ids; answers the first. */
  addNotes(origin: Origin, notes: readonly NewNote[], standing: Standing): Promise<number>;
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
  addCollection(origin: Origin, collection: NewCollection, standing: Standing): Promise<number>;
  collection(id: number): Promise<Collection | undefined>;
  /** What a version of it held, as far as that is there. Undefined: there is no such version. */
  collectionVersion(id: number, version: number): Promise<Pick<Collection, "count" | "bytes"> | undefined>;
  /**
   * Appends to the newest version, in this order; new notes get the collection's standing and the given origin, and what is
   * there already gets at least its reach and is kept as long. The collection gains the actions that all of it came from.
   * Answers how it is now; undefined where it is not there.
   */
  append(id: number, entries: readonly Entry[], origin: Origin): Promise<Collection | undefined>;
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
  items(id: number, query: ItemQuery): Promise<readonly Item[]>;
  /** Where notes stand in a version of it, the first place of each. Those that are not in it, or not there, are left out. */
  positions(id: number, version: number, notes: readonly number[]): Promise<ReadonlyMap<number, number>>;

  /** Kept for good and for whom; of a collection, all that is in it as well. Undefined where it is not there. */
  save(
    kind: ResourceKind,
    id: number,
    how: { readonly reach: Reach; readonly name?: string | undefined; readonly at: string },
  ): Promise<NoteFacts | Collection | undefined>;
  /** `save` of each, in this order, and all of it or nothing. What is not there is passed over. */
  saveAll(list: readonly Saving[]): Promise<void>;
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
  mark(of: Whose | { readonly collection: number }): Promise<string>;
  /**
   * Every note within reach, or of the named collection, by id, with a text that changes when what it says, its name or its
   * properties do. For indexes.
   */
  contents(
    of: Whose | { readonly collection: number },
    options?: {
      /** Of what is within reach, only what came from where this allows. Asked once for each different origin. */
      readonly allows?: ((origin: Origin) => boolean) | undefined;
    },
  ): Promise<ReadonlyMap<number, string>>;

  /** Stores the actions that a call has data from while it waits. The same call again adds to them. */
  holdSources(callId: string, sources: readonly string[]): Promise<void>;
  /** Those that were stored for a call. Of one that is unknown, none. */
  heldSources(callId: string): Promise<readonly string[]>;

  /** How much the session, the user and the tenant use, as far as they use anything. Absent: every tenant. */
  usage(of?: Whose): Promise<readonly Usage[]>;
  /**
   * The same store within limits: whatever would pass one throws `quota_exceeded` and writes nothing. The check and the write
   * are one transaction, so that several processes cannot pass it together.
   */
  limitedTo(quota: Quota): InfospaceStore;
}
