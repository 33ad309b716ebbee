import { messageOf, QmError } from "../../core/errors.ts";

/** Turns texts into vectors in which nearness is likeness of meaning. */
export interface Embedder {
  /** The same fingerprint means the same vectors for the same texts, wherever they are made. */
  readonly fingerprint: string;
  /** The cosine below which two texts have nothing to do with each other: models differ. Absent: 0.25. */
  readonly floor?: number;
  /**
   * One vector a text, in the texts' order, all equally long and of unit length (or zero, for a text that says
   * nothing). A query is asked for once and quickly; documents may be tried again and again.
   */
  embed(texts: readonly string[], purpose: "query" | "document", signal: AbortSignal): Promise<readonly Float32Array[]>;
  close?(): Promise<void>;
}

/** What became of the choice of an embedder: it, why there is none and what to do about that, or none by choice. */
export type ChosenEmbedder =
  | { readonly embedder: Embedder }
  | { readonly unavailable: string; readonly hint: string }
  | { readonly off: true };

/** Whatever an embedder threw. */
export function embedderError(thrown: unknown): QmError {
  return thrown instanceof QmError ? thrown : new QmError("embedder_failed", messageOf(thrown), { cause: thrown });
}
