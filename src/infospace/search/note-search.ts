import type { Caller } from "../../core/caller.ts";
import type { Collection, NoteFacts } from "../note.ts";

export const noteSearchTypes = ["keyword", "semantic", "hybrid"] as const;

export type NoteSearchType = (typeof noteSearchTypes)[number];

export interface NoteQuery {
  /** Blank: whatever there is, the newest first; of a collection, in its order. */
  readonly query: string;
  /** Absent: `hybrid` where there is an embedder, else `keyword`. */
  readonly type?: NoteSearchType | undefined;
  readonly limit: number;
  readonly signal?: AbortSignal | undefined;
}

export interface NoteSearchHit {
  readonly note: NoteFacts;
  /** From 0 to 1. */
  readonly score: number;
  /** The part of it that fits best, as text, bounded. */
  readonly passage: string;
}

export interface NoteSearchResult<Hit> {
  /** Best first. Empty when nothing fits. */
  readonly hits: readonly Hit[];
  /** Whether there are more that fit: the limit was reached. */
  readonly limitReached: boolean;
  /** How many notes or collections were looked through. */
  readonly searched: number;
  /** How many were not, because together they are more than an index holds. */
  readonly left: number;
  readonly effective: NoteSearchType;
  readonly unmatched: readonly string[];
  /** Why something else was done than was asked for. */
  readonly note?: string;
}

/** Finds notes and collections by what they say. What is found is what is there now, and what the caller may use. */
export interface NoteSearch {
  notes(caller: Caller, query: NoteQuery): Promise<NoteSearchResult<NoteSearchHit>>;
  collections(
    caller: Caller,
    query: NoteQuery,
  ): Promise<NoteSearchResult<{ readonly collection: Collection; readonly score: number }>>;
  within(
    collection: Collection,
    query: NoteQuery,
  ): Promise<NoteSearchResult<NoteSearchHit & { readonly position: number }>>;
  /**
   * Makes the vectors of a collection, or of all the caller's notes, now. Rejects with `search_off` where nobody makes any.
   * Vectors are everybody's, by text: nothing tells which of them were there, and so what others have written.
   */
  index(
    of: Collection | Caller,
    options: { readonly signal?: AbortSignal; readonly onProgress?: (step: { done: number; total: number }) => void },
  ): Promise<NoteIndexReport>;
}

export interface NoteIndexReport {
  readonly notes: number;
  /** How many are found by meaning. */
  readonly ready: number;
  /** How many are not, because together they are more than an index holds. */
  readonly left: number;
}
