import type { Caller } from "../../core/caller.ts";
import type { Collection, NoteFacts } from "../note.ts";

export const noteSearchTypes = ["keyword", "semantic", "hybrid"] as const;
export type NoteSearchType = (typeof noteSearchTypes)[number];

export interface NoteQuery {
  /** Blank: the newest first, or the items of a collection in order. */
  readonly query: string;
  /** Default: `hybrid` with an embedder, else `keyword`. */
  readonly type?: NoteSearchType | undefined;
  readonly limit: number;
  readonly signal?: AbortSignal | undefined;
}

/** `score`: from 0 to 1; `passage`: the text that matches best. */
export type NoteSearchHit = Readonly<{ note: NoteFacts; score: number; passage: string }>;
export type CollectionSearchHit = Readonly<{ collection: Collection; score: number }>;
export type ItemSearchHit = NoteSearchHit & { readonly position: number };

export interface NoteSearchResult<Hit> {
  readonly hits: readonly Hit[];
  /** Whether there are more hits. */
  readonly limitReached: boolean;
  readonly searched: number;
  /** How many were not searched, because the index is full. */
  readonly left: number;
  readonly effective: NoteSearchType;
  readonly unmatched: readonly string[];
  /** Why the search differs from what was asked for. */
  readonly note?: string;
}

/** Full-text and semantic search over the notes and collections that a caller may use. */
export interface NoteSearch {
  notes(caller: Caller, query: NoteQuery): Promise<NoteSearchResult<NoteSearchHit>>;
  collections(caller: Caller, query: NoteQuery): Promise<NoteSearchResult<CollectionSearchHit>>;
  within(collection: Collection, query: NoteQuery): Promise<NoteSearchResult<ItemSearchHit>>;
  /**
   * Makes the vectors of a collection, or of all the caller's notes. Rejects with `search_off` without an embedder. Vectors are
   * shared by text, so neither report nor progress shows which existed: that would reveal what others have written.
   */
  index(of: Collection | Caller, options: NoteIndexOptions): Promise<NoteIndexReport>;
}

type OnProgress = (step: { done: number; total: number }) => void;
type NoteIndexOptions = Readonly<{ signal?: AbortSignal; onProgress?: OnProgress }>;

/** `ready`: how many have vectors; `left`: how many do not, because the index is full. */
export type NoteIndexReport = Readonly<{ notes: number; ready: number; left: number }>;
