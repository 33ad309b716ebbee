import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { UnstampedEvent } from "../core/events.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { Runtime } from "../core/runtime.ts";
import type { InfospaceStore } from "./infospace-store.ts";
import type { Collection, CollectionItem, Note, NoteFacts, NoteVisibility } from "./note.ts";
import type { Lineage, NoteAuthor } from "./provenance.ts";

/** What it is called and what is known of it. The same name again is the next version of the same resource. */
export interface NoteLabel {
  readonly name?: string | undefined;
  readonly properties?: JsonObject | undefined;
  /** Whether something saved of that name is replaced as well, or only what expires. Absent: only that. */
  readonly replaces?: "transient" | "saved" | undefined;
}

/** One more for a collection: a note that is there, or what a new one says. */
export type CollectionMember = { readonly id: number } | ({ readonly content: Json } & NoteLabel);

export type CollectionMembers = Iterable<CollectionMember> | AsyncIterable<CollectionMember>;

export interface CollectOptions extends NoteLabel {
  /** Told the handle before the first note is in, and how many there are after each portion. */
  readonly onProgress?: (handle: string, count: number) => void;
  readonly signal?: AbortSignal | undefined;
  /** Asked at the end: whether all that there should be has come. Absent: yes. */
  readonly isWhole?: (() => boolean) | undefined;
  /** How many are written at a time, at most: so many are lost when the process dies. Absent: a few hundred. */
  readonly portion?: number | undefined;
}

/** Media as it is kept: what a model can only be told of. */
export interface NoteFile extends NoteLabel {
  readonly bytes: Uint8Array;
  readonly mediaType: string;
}

export interface ItemRange {
  /** The position of the first; 0 when absent. */
  readonly from?: number;
  /** The position after the last. */
  readonly to?: number;
  readonly signal?: AbortSignal;
}

export interface RemovedCounts {
  readonly notes: number;
  readonly collections: number;
}

/**
 * Notes and collections, for callers: whatever takes a caller asks the policy first. What is not there and what the caller
 * may not know of answer alike, `not_found`. In place of a handle a name will do: the newest within reach that is called so.
 */
export interface Infospace {
  /** As it is, or was: `version` from 1. */
  note(handle: string, caller: Caller, version?: number): Promise<Note>;
  /** As it is, or was: of an earlier version what it held then, as far as that is there. */
  collection(handle: string, caller: Caller, version?: number): Promise<Collection>;
  /** Either, without content. */
  resource(handle: string, caller: Caller): Promise<NoteFacts | Collection>;
  /** In order, read portion by portion, so that no more of it is in memory. Throws when the signal aborts. */
  items(
    collection: Pick<Collection, "id" | "version" | "count" | "bytes">,
    slice?: ItemRange,
  ): AsyncIterable<CollectionItem>;
  write(maker: NoteAuthor, content: Json, label?: NoteLabel): Promise<NoteFacts>;
  writeFile(maker: NoteAuthor, file: NoteFile): Promise<NoteFacts>;
  /** A collection of what comes, written portion by portion as it comes. */
  collect(maker: NoteAuthor, members: CollectionMembers, how?: CollectOptions): Promise<Collection>;
  /** Appends to a collection that is there. */
  add(maker: NoteAuthor, handle: string, members: CollectionMembers): Promise<Collection>;
  /** Takes notes out of a collection; answers how many places that were. */
  takeOut(maker: NoteAuthor, handle: string, notes: readonly number[]): Promise<number>;
  /** Keeps it for good; of a collection, all that is in it. */
  save(
    maker: NoteAuthor,
    handle: string,
    how: { readonly reach: NoteVisibility; readonly name?: string | undefined },
  ): Promise<NoteFacts | Collection>;
  remove(maker: NoteAuthor, handle: string): Promise<RemovedCounts>;
  /** The handles of others within reach that are called the same, a few of the newest. */
  namesakes(resource: NoteFacts | Collection, caller: Caller): Promise<readonly string[]>;
}

export interface InfospaceOptions {
  readonly store: InfospaceStore;
  readonly runtime: Pick<Runtime, "now">;
  /** How long what nobody saves is kept. */
  readonly expiresInMs: number;
  /** What the policy says of a resource: it may be used, it is as if it were not there, or why it may not. */
  mayUse(resource: Action, caller: Caller): ResourceAccess;
  readonly note: (caller: Caller, event: UnstampedEvent) => void;
  /** Told what is read, and asked what that came from when something is written. Absent: nobody's call is followed. */
  readonly lineage?: Pick<Lineage, "add" | "sources"> | undefined;
}

export type ResourceAccess = "allowed" | "hidden" | { readonly refused: string };
