import type { DocumentChunk, RagDocument, RagSource } from "./rag-store.ts";

export const recallTypes = ["keyword", "semantic", "hybrid"] as const;
export type RecallType = (typeof recallTypes)[number];

export type ChunkText = Pick<DocumentChunk, "heading" | "text"> & Pick<RagDocument, "document">;
export type VectorOptions = Readonly<{
  signal: AbortSignal;
  onProgress?: ((step: { done: number; total: number }) => void) | undefined;
}>;

export interface ChunkQuery {
  readonly query: string;
  readonly type: RecallType | undefined;
  readonly limit: number;
  readonly signal: AbortSignal;
}

export interface ChunkRanking {
  /** The best chunks first. `score`: from 0 to 1. */
  readonly ranked: readonly Readonly<{ id: number; score: number }>[];
  readonly effective: RecallType;
  /** The words of the query that no chunk has. */
  readonly unmatched: readonly string[];
  /** Why the search differs from what was asked for. */
  readonly notes: readonly string[];
  readonly searched: number;
  /** How many chunks were not searched, because the index is full. */
  readonly left: number;
}

/** Search by words and, with an embedder, by meaning over the chunks in the store. */
export interface RagSearch {
  /** Makes the vectors of texts that are not stored yet. Returns why it did not, or undefined. */
  prepare(chunks: readonly ChunkText[], options: VectorOptions): Promise<string | undefined>;
  /** Makes the missing vectors of a stored source. Returns why it did not, or undefined. */
  complete(source: RagSource, options: VectorOptions): Promise<string | undefined>;
  search(sources: readonly RagSource[], query: ChunkQuery): Promise<ChunkRanking>;
  /** Forgets a dropped source. */
  forget(source: RagSource): Promise<void>;
}
