/** Longer texts are not misspellings of anything; comparing them would only burn time. */
const LENGTH_LIMIT = 256;

/**
 * The candidate that `text` most likely misspells, ignoring case, or undefined when none is near. Swapping two
 * neighbours counts as one edit. `maxDistance` defaults to a third of the length, at least 1 and at most 3; among
 * equally near candidates the first wins.
 */
export function nearest(
  text: string,
  candidates: Iterable<string>,
  maxDistance = defaultDistance(text),
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

function defaultDistance(text: string): number {
  return Math.min(3, Math.max(1, Math.floor(text.length / 3)));
}

/**
 * Edits (insert, delete, replace, swap neighbours) that turn `a` into `b`, or `bound + 1` as soon as it is certain
 * that there are more than `bound`. Three rows of memory, whatever the lengths.
 */
export function editDistance(a: string, b: string, bound: number): number {
  if (Math.abs(a.length - b.length) > bound || Math.max(a.length, b.length) > LENGTH_LIMIT) return bound + 1;
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      const replaced = at(last, column - 1) + (same ? 0 : 1);
      const edited = Math.min(replaced, at(last, column) + 1, at(current, column - 1) + 1);
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      current.push(swapped ? Math.min(edited, at(beforeLast, column - 2) + 1) : edited);
    }
    // A swap reaches back two rows, so only two rows beyond the bound are certain.
    if (Math.min(...current, ...last) > bound) return bound + 1;
    [beforeLast, last] = [last, current];
  }
  return Math.min(at(last, b.length), bound + 1);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY;
}
