import { getErrorMessage, QmError } from "../../core/errors.ts";

/** Checks and normalizes vectors from outside. A zero vector stays zero: it is similar to none. */
export function toUnitVectors(answer: readonly unknown[], count: number) {
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

const isNumbers = (value: unknown): value is ArrayLike<unknown> =>
  (Array.isArray(value) || value instanceof Float32Array) && value.length > 0;

function toUnitVector(numbers: ArrayLike<unknown>): Float32Array | undefined {
  let squares = 0;
  for (let at = 0; at < numbers.length; at++) {
    const number = numbers[at];
    if (typeof number !== "number") return undefined;
    squares += number * number;
  }
  // Also refuses NaN, and numbers whose sum of squares is infinite.
  if (!Number.isFinite(squares)) return undefined;
  const length = Math.sqrt(squares);
  return length === 0
    ? new Float32Array(numbers.length)
    : Float32Array.from(numbers as ArrayLike<number>, (number) => number / length);
}

export interface Embedder {
  /** Embedders with the same fingerprint make the same vectors. */
  readonly fingerprint: string;
  /** The cosine below which two texts are unrelated. Default: 0.25. */
  readonly floor?: number;
  /** One vector per text, in order, of unit length or zero. May retry documents, but not a query. */
  embed(texts: readonly string[], purpose: "query" | "document", signal: AbortSignal): Promise<readonly Float32Array[]>;
  close?(): Promise<void>;
}

export type ChosenEmbedder =
  | { readonly embedder: Embedder }
  | { readonly unavailable: string; readonly hint: string }
  | { readonly off: true };

export const embedderError = (thrown: unknown): QmError =>
  thrown instanceof QmError ? thrown : new QmError("embedder_failed", getErrorMessage(thrown), { cause: thrown });
