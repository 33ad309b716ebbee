const LENGTH_LIMIT = 256;

/** The nearest candidate, ignoring case, if one is near. Default distance: a third of the length, between 1 and 3. */
export function findNearest(
  text: string,
  candidates: Iterable<string>,
  maxDistance = Math.min(3, Math.max(1, Math.floor(text.length / 3))),
): string | undefined {
  if (text.length > LENGTH_LIMIT) return undefined;
  const asked = text.toLowerCase();
  let best: string | undefined;
  let bound = maxDistance;
  for (const candidate of candidates) {
    if (candidate.length > LENGTH_LIMIT) continue;
    const distance = editDistance(asked, candidate.toLowerCase(), bound);
    if (distance > bound) continue;
    best = candidate;
    if (distance === 0) break;
    bound = distance - 1;
  }
  return best;
}

/** `; did you mean X?` to end an error message with, or the empty string. */
export function didYouMean(text: string, candidates: Iterable<string>): string {
  const near = findNearest(text, candidates);
  return near === undefined ? "" : `; did you mean ${near}?`;
}

// Reused, because most comparisons end after a few rows and allocating would cost more.
let current = new Uint16Array(LENGTH_LIMIT + 1);
let last = new Uint16Array(LENGTH_LIMIT + 1);
let beforeLast = new Uint16Array(LENGTH_LIMIT + 1);

/** The number of edits (insert, delete, replace, swap neighbours) from `a` to `b`, or `bound + 1` if there are more. */
export function editDistance(a: string, b: string, bound: number): number {
  if (Math.abs(a.length - b.length) > bound || Math.max(a.length, b.length) > LENGTH_LIMIT) return bound + 1;
  if (a === b) return 0;
  if (bound === 0) return 1;
  for (let column = 0; column <= b.length; column++) last[column] = column;
  // Cells further from the diagonal than the bound cannot matter, so they are not computed.
  const far = bound + 1;
  let lastLeast = 0;
  for (let row = 1; row <= a.length; row++) {
    const from = Math.max(1, row - bound);
    const to = Math.min(b.length, row + bound);
    current[from - 1] = from === 1 ? row : far;
    if (to === row + bound) last[to] = far;
    let least = row;
    for (let column = from; column <= to; column++) {
      const edits = countEdits(a, b, row, column);
      current[column] = edits;
      if (edits < least) least = edits;
    }
    // A swap reaches back two rows, so the search ends only after two rows above the bound.
    if (Math.min(least, lastLeast) > bound) return bound + 1;
    lastLeast = least;
    [beforeLast, last, current] = [last, current, beforeLast];
  }
  return Math.min(last[b.length] ?? 0, bound + 1);
}

function countEdits(a: string, b: string, row: number, column: number): number {
  const same = a.charCodeAt(row - 1) === b.charCodeAt(column - 1);
  let edits = (last[column - 1] ?? 0) + (same ? 0 : 1);
  edits = Math.min(edits, (last[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1);
  if (row < 2 || column < 2 || same) return edits;
  const swapped =
    a.charCodeAt(row - 1) === b.charCodeAt(column - 2) && a.charCodeAt(row - 2) === b.charCodeAt(column - 1);
  return swapped ? Math.min(edits, (beforeLast[column - 2] ?? 0) + 1) : edits;
}
