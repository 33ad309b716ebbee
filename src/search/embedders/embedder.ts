import { getErrorMessage, QmError } from "../../core/errors.ts";

/**
 * Numbers from outside as vectors of unit length, or what is wrong with them. Zero stays zero: a text that says nothing
 * is like no other.
 */
export function toUnitVectors(
  answer: readonly unknown[],
  count: number,
): { readonly vectors: readonly Float32Array[] } | { readonly problem: string } {
  if (answer.length !== count) return { problem: `${answer.length} vectors for ${count} texts` };
  const vectors: Float32Array[] = [];
  for (const numbers of answer) {
    const vector = isNumbers(numbers) ? toUnitVector(numbers) : undefined;
    if (vector === undefined) return { problem: "a vector that is not a list of finite numbers" };
    const dimensions = vectors[0]?.length ?? vector.length;
    if (vector.length !== dimensions) return { problem: `vectors of ${dimensions} and of ${vector.length} numbers` };
    vectors.push(vector);
  }
  return { vectors };
}

function isNumbers(value: unknown): value is ArrayLike<unknown> {
  return (Array.isArray(value) || value instanceof Float32Array) && value.length > 0;
}

function toUnitVector(numbers: ArrayLike<unknown>): Float32Array | undefined {
  let squares = 0;
  for (let at = 0; at < numbers.length; at++) {
    const number = numbers[at];
    if (typeof number !== "number") return undefined;
    squares += number * number;
  }
  // Also what is finite alone and too large together, and what is no number at all.
  if (!Number.isFinite(squares)) return undefined;
  const length = Math.sqrt(squares);
  return length === 0
    ? new Float32Array(numbers.length)
    : Float32Array.from(numbers as ArrayLike<number>, (number) => number / length);
}

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
  return thrown instanceof QmError
    ? thrown
    : new QmError("embedder_failed", getErrorMessage(thrown), { cause: thrown });
}
