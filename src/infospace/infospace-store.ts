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
  Resource,
  ResourceKind,
} from "./note.ts";
import type { Quota, QuotaUsage } from "./quota.ts";

type Found<T> = Promise<T | undefined>;

/** How many earlier versions of a note the store keeps. */
export const MAX_VERSIONS = 50;

/**
 * Storage of notes and collections. Ids increase and are never reused. Every method is one transaction. Expired resources
 * count as removed. Methods that take an id return undefined if it does not exist.
 */
export interface InfospaceStore {
  /** Adds notes of one origin with consecutive ids. Returns the first id. */
  addNotes(origin: NoteOrigin, notes: readonly NewNote[], retention: Retention): Promise<number>;
  note(id: number): Promise<Note | undefined>;
  noteFacts(id: number): Promise<NoteFacts | undefined>;
  /** The existing ones, in no order. */
  notes(ids: readonly number[]): Promise<readonly Note[]>;
  /**
   * Replaces the content and moves the old one to the history, of which the newest `MAX_VERSIONS` are kept. The note keeps
   * its origin and gains `sources`. Returns undefined if the current version is not `version`.
   */
  replaceNote(id: number, version: number, content: NewNote, at: string, sources?: readonly string[]): Found<NoteFacts>;
  /** Earlier versions, oldest first. */
  history(id: number): Promise<readonly NoteVersion[]>;
  noteVersion(id: number, version: number): Promise<Note | undefined>;

  /** Adds an empty, incomplete collection. */
  addCollection(origin: NoteOrigin, collection: NewCollection, retention: Retention): Promise<number>;
  collection(id: number): Promise<Collection | undefined>;
  collectionVersion(id: number, version: number): Promise<Pick<Collection, "count" | "bytes"> | undefined>;
  /**
   * Appends to the newest version. New notes get the given origin and the collection's retention. Existing notes get at
   * least its reach and lifetime. The collection gains the sources of all of them.
   */
  append(id: number, entries: readonly NewCollectionItem[], origin: NoteOrigin): Promise<Collection | undefined>;
  /** Moves all items of the collection `by` to the end of this one and removes `by`. */
  absorb(id: number, by: number, at: string): Promise<Collection | undefined>;
  /** Marks a collection as filled. */
  complete(id: number): Promise<void>;
  /** Makes the items of `by` the next version of this collection and removes `by`. */
  replaceCollection(id: number, by: number, at: string): Promise<Collection | undefined>;
  /** Removes all occurrences of the notes, as a new version. Returns how many positions were removed. */
  removeItems(id: number, notes: readonly number[], at: string): Promise<number>;
  items(id: number, query: ItemQuery): Promise<readonly CollectionItem[]>;
  /** The first position of each note in a version. Notes that are not in it are left out. */
  positions(id: number, version: number, notes: readonly number[]): Promise<ReadonlyMap<number, number>>;

  /** Removes the expiry, of a collection also that of its notes. */
  save(kind: ResourceKind, id: number, options: SaveOptions): Promise<Resource | undefined>;
  /** `save` for each in order, in one transaction. Unknown ids are skipped. */
  saveAll(list: readonly SaveRequest[]): Promise<void>;
  /** Removes a note from all collections too, and a collection with the notes that were made for it and are nowhere else. */
  remove(kind: ResourceKind, id: number): Promise<RemovedCounts>;
  expire(at: string): Promise<RemovedCounts>;
  /** Newest first. */
  list(query: ResourceQuery & { readonly kind: "note" }): Promise<readonly NoteFacts[]>;
  list(query: ResourceQuery & { readonly kind: "collection" }): Promise<readonly Collection[]>;
  /** How many resources `list` would return without a limit. */
  count(query: Omit<ResourceQuery, "limit" | "before">): Promise<number>;
  /** A cheap mark that changes whenever a resource in the scope, or a note of the collection, is added, changed or removed. */
  mark(of: SearchScope): Promise<string>;
  /**
   * Every note in the scope or collection by id, with a text that changes with its content, name or properties. `allows` is
   * asked once per origin and hides the notes of an origin that it refuses.
   */
  contents(of: SearchScope, options?: ContentsOptions): Promise<ReadonlyMap<number, string>>;

  /** Stores the source actions of a waiting call. A second time adds to them. */
  holdSources(callId: string, sources: readonly string[]): Promise<void>;
  heldSources(callId: string): Promise<readonly string[]>;

  /** Usage of the session, the user and the tenant. Without a scope: of every tenant. */
  usage(of?: OwnerScope): Promise<readonly QuotaUsage[]>;
  /**
   * The same store with limits: a write beyond one throws `quota_exceeded` and writes nothing. Check and write are one
   * transaction, so that several processes cannot exceed a limit together.
   */
  limitedTo(quota: Quota): InfospaceStore;
}

/** A caller's view of the store. It only narrows queries; the policy decides on access. */
export interface OwnerScope {
  readonly tenant?: string | undefined;
  readonly user?: string | undefined;
  readonly actor: string;
  readonly session: string;
}

type SearchScope = OwnerScope | { readonly collection: number };
type ContentsOptions = { readonly allows?: ((origin: NoteOrigin) => boolean) | undefined };

export interface StoredContent {
  readonly format: NoteFormat;
  /** JSON. For a file: `{ media_type, size }`, without the bytes. */
  readonly text: string;
  readonly file?: Uint8Array;
  readonly bytes: number;
  readonly hash: string;
}

export type NewCollection = Readonly<{ name?: string | undefined; properties?: JsonObject | undefined }>;

export interface NewNote extends StoredContent, NewCollection {}

/** Without `expiresAt` it never expires. */
export type Retention = Readonly<{ reach: NoteVisibility; expiresAt?: string | undefined }>;

/** An existing note by id, or a new one that is made for the collection. */
export type NewCollectionItem = { readonly id: number } | NewNote;
export type RemovedCounts = Readonly<{ notes: number; collections: number }>;

export interface ResourceQuery {
  readonly kind: ResourceKind;
  /** Absent: all owners, for operators. */
  readonly whose?: OwnerScope | undefined;
  readonly name?: string | undefined;
  readonly tenant?: string | undefined;
  readonly session?: string | undefined;
  /** The action whose call made it. */
  readonly action?: string | undefined;
  readonly callId?: string | undefined;
  readonly saved?: boolean | undefined;
  /** Whether to include notes that were made for a collection. */
  readonly parts?: boolean | undefined;
  /** Only smaller ids. */
  readonly before?: number | undefined;
  readonly limit: number;
}

/** `from`: the first position. Default version: the newest. */
type ItemQuery = Readonly<{ version?: number | undefined; from: number; limit: number }>;
type SaveOptions = Readonly<{ reach: NoteVisibility; name?: string | undefined; at: string }>;
export type SaveRequest = SaveOptions & Readonly<{ kind: ResourceKind; id: number }>;

export function toJsonContent(content: Json): StoredContent {
  const text = JSON.stringify(content);
  const format = typeof content === "string" ? "text" : "json";
  return { format, text, bytes: Buffer.byteLength(text), hash: hash("sha256", text, "hex") };
}

export function toFileContent(file: Uint8Array, mediaType: string): StoredContent {
  const text = JSON.stringify({ media_type: mediaType, size: file.byteLength });
  return { format: "file", text, file, bytes: file.byteLength, hash: hash("sha256", file, "hex") };
}
