import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { UnstampedEvent } from "../core/events.ts";
import type { Json } from "../core/json.ts";
import type { ResourceAccess } from "../core/resource-access.ts";
import type { Runtime } from "../core/runtime.ts";
import type { InfospaceStore, NewCollection, RemovedCounts } from "./infospace-store.ts";
import type { Collection, CollectionItem, Note, NoteFacts, NoteVisibility, Resource } from "./note.ts";
import type { Lineage, NoteAuthor } from "./provenance.ts";

/**
 * Notes and collections with access control: methods that take a caller or an author ask the policy first. An unknown
 * resource and a hidden one both fail with `not_found`. A name can stand for a handle: the newest with that name in reach.
 */
export interface Infospace {
  note(handle: string, caller: Caller, version?: number): Promise<Note>;
  collection(handle: string, caller: Caller, version?: number): Promise<Collection>;
  /** A note or collection, without content. */
  resource(handle: string, caller: Caller): Promise<Resource>;
  /** The items in order, read portion by portion. Throws when the signal aborts. */
  items(collection: CollectionRef, range?: ItemRange): AsyncIterable<CollectionItem>;
  write(maker: NoteAuthor, content: Json, label?: NoteLabel): Promise<NoteFacts>;
  writeFile(maker: NoteAuthor, file: NoteFile): Promise<NoteFacts>;
  /** Writes a new collection portion by portion, as the members arrive. */
  collect(maker: NoteAuthor, members: CollectionMembers, options?: CollectOptions): Promise<Collection>;
  /** Adds all members or none. With a `portion`, writes them as they arrive. `isWhole`: the collection is then complete. */
  add(
    maker: NoteAuthor,
    handle: string,
    members: CollectionMembers,
    options?: Pick<CollectOptions, "portion" | "isWhole">,
  ): Promise<Collection>;
  /** Removes notes from a collection. Returns how many positions were removed. */
  takeOut(maker: NoteAuthor, handle: string, notes: readonly number[]): Promise<number>;
  /** Removes the expiry, of a collection also that of its notes. */
  save(maker: NoteAuthor, handle: string, options: SaveLabel): Promise<Resource>;
  remove(maker: NoteAuthor, handle: string): Promise<RemovedCounts>;
  /** The handles of a few other resources in reach with the same name, newest first. */
  namesakes(resource: Resource, caller: Caller): Promise<readonly string[]>;
}

type CollectionRef = Pick<Collection, "id" | "version" | "count" | "bytes">;
type SaveLabel = Readonly<{ reach: NoteVisibility; name?: string | undefined }>;

/** The same name again makes the next version of the same resource: with `transient` (default), only of an unsaved one. */
export type NoteLabel = NewCollection & { readonly replaces?: "transient" | "saved" | undefined };

/** An existing note by id, or the content of a new one. */
export type CollectionMember = { readonly id: number } | ({ readonly content: Json } & NoteLabel);
export type CollectionMembers = Iterable<CollectionMember> | AsyncIterable<CollectionMember>;

export interface CollectOptions extends NoteLabel {
  /** Called with a count of 0 before the first note, and after each portion. */
  readonly onProgress?: (handle: string, count: number) => void;
  readonly signal?: AbortSignal | undefined;
  /** Called at the end: whether the collection is complete. Default: yes. */
  readonly isWhole?: (() => boolean) | undefined;
  /** How many members are written at a time, and can be lost in a crash. */
  readonly portion?: number | undefined;
}

export type NoteFile = NoteLabel & Readonly<{ bytes: Uint8Array; mediaType: string }>;

/** `from`: the first position, by default 0; `to`: the position after the last. */
export type ItemRange = Readonly<{ from?: number; to?: number; signal?: AbortSignal }>;

export interface InfospaceOptions {
  readonly store: InfospaceStore;
  readonly runtime: Pick<Runtime, "now">;
  /** The lifetime of unsaved resources. */
  readonly expiresInMs: number;
  mayUse(resource: Action, caller: Caller): ResourceAccess;
  readonly note: (caller: Caller, event: UnstampedEvent) => void;
  /** Records what a call reads, as the sources of what it writes. Absent: sources are not tracked. */
  readonly lineage?: Pick<Lineage, "add" | "sources"> | undefined;
}
