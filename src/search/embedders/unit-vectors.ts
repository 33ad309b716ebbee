/**
 * Numbers from outside as vectors of unit length, or what is wrong with them. Zero stays zero: a text that says nothing
 * is like no other.
 */
export function unitVectors(
  answer: readonly unknown[],
  count: number,
): { readonly vectors: readonly Float32Array[] } | { readonly problem: string } {
  if (answer.length !== count) return { problem: `${answer.length} vectors for ${count} texts` };
  const vectors: Float32Array[] = [];
  for (const numbers of answer) {
    const vector = isNumbers(numbers) ? unitVector(numbers) : undefined;
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

function unitVector(numbers: ArrayLike<unknown>): Float32Array | undefined {
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
