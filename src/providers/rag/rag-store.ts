import type { ActionOwner, ActionProvenance } from "../../core/action.ts";
import type { JsonObject } from "../../core/json.ts";

/** The documents of a source as the caller gave them, so that its name is enough to index it again. */
export interface SourceContents {
  readonly files?: readonly string[] | undefined;
  readonly folder?: string | undefined;
  readonly urls?: readonly string[] | undefined;
  readonly collection?: string | undefined;
}

export interface RagSource {
  readonly id: number;
  readonly name: string;
  readonly description: string;
  /** Everyone of the tenant, or only the owner of the collection that it was made from. */
  readonly owner: ActionOwner & { readonly tenant: string };
  readonly madeFrom: ActionProvenance;
  readonly contents: SourceContents;
  /** Counts the times it was indexed. */
  readonly version: number;
  readonly documents: number;
  readonly chunks: number;
  readonly characters: number;
  readonly indexedAt: string;
}

/** The call that read a document. A caller whose policy denies this call does not find the document. */
export type DocumentCall = Readonly<{ action: string; args: JsonObject }>;

/** A contiguous part of a document. Lines are counted from 1, offsets in characters from 0. */
export interface DocumentChunk {
  /** The headings above it, outermost first. Empty: none. */
  readonly heading: string;
  readonly text: string;
  readonly lines: readonly [from: number, to: number];
  readonly offset: readonly [from: number, to: number];
}

export interface RagDocument {
  /** Its path, URL or handle. */
  readonly document: string;
  readonly title: string;
  readonly hash: string;
  readonly characters: number;
  readonly read: DocumentCall;
}

export type StoredDocument = Pick<RagDocument, "document" | "hash" | "characters" | "read"> &
  Readonly<{ id: number; sourceId: number; chunks: number }>;
export type NewDocument = RagDocument & { readonly chunks: readonly DocumentChunk[] };
export type StoredChunk = DocumentChunk &
  Pick<RagDocument, "document" | "title"> &
  Readonly<{ id: number; sourceId: number; documentId: number; mark: string }>;

export type ChunkMark = Readonly<{ id: number; documentId: number; mark: string }>;

export interface SourceChange {
  /** The version that was read before. Absent: the source is new. */
  readonly former?: Pick<RagSource, "id" | "version"> | undefined;
  readonly source: Pick<RagSource, "name" | "description" | "owner" | "madeFrom" | "contents">;
  readonly put: readonly NewDocument[];
  /** Documents that were changed or are gone. */
  readonly removed: readonly number[];
}

/** For each tenant. */
export const SOURCE_LIMIT = 1_000;

export interface RagStore {
  list(tenant: string): Promise<readonly RagSource[]>;
  documents(sources: readonly number[]): Promise<readonly StoredDocument[]>;
  /**
   * All or nothing. Throws `conflict` if another process has indexed or dropped the source since it was read, and
   * `quota_exceeded` if the tenant has too many sources.
   */
  save(change: SourceChange): Promise<RagSource>;
  drop(source: number): Promise<void>;
  /** A text that changes whenever one of the sources does. */
  mark(sources: readonly number[]): Promise<string>;
  /** The chunks, each with a text that changes with it. */
  chunkMarks(sources: readonly number[]): Promise<readonly ChunkMark[]>;
  chunks(ids: readonly number[]): Promise<readonly StoredChunk[]>;
}
