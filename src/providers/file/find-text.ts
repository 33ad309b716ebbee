/**
 * Where `needle` begins in `text`, overlapping places included, in linear time whatever both hold (Knuth, Morris and
 * Pratt): `indexOf` takes minutes on texts made to slow it down. `needle` is not empty.
 */
export function* occurrences(text: string, needle: string): Generator<number> {
  const borders = bordersOf(needle);
  let matched = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    while (matched > 0 && code !== needle.charCodeAt(matched)) matched = borders[matched - 1] ?? 0;
    if (code === needle.charCodeAt(matched)) matched++;
    if (matched === needle.length) {
      yield at - matched + 1;
      matched = borders[matched - 1] ?? 0;
    }
  }
}

/** For each prefix, the length of the longest proper prefix of it that is also its end. */
function bordersOf(needle: string): Int32Array {
  const borders = new Int32Array(needle.length);
  let length = 0;
  for (let at = 1; at < needle.length; at++) {
    while (length > 0 && needle.charCodeAt(at) !== needle.charCodeAt(length)) length = borders[length - 1] ?? 0;
    if (needle.charCodeAt(at) === needle.charCodeAt(length)) length++;
    borders[at] = length;
  }
  return borders;
}

export interface ClosestLine {
  /** Counted from 0, as a read counts. */
  readonly line: number;
  readonly text: string;
}

/** How much of a file is compared: it is only for a hint. */
const CHARACTERS_COMPARED = 250_000;
const LINE_COMPARED = 400;
const NEAR_ENOUGH = 0.4;

/** The line of `text` most like the first telling line of `wanted`, or undefined when none is like it. */
export function closestLine(text: string, wanted: string): ClosestLine | undefined {
  const telling = wanted.split("\n").find((line) => line.trim().length > 2) ?? wanted;
  const pairs = pairsOf(telling);
  let best: ClosestLine | undefined;
  let bestScore = NEAR_ENOUGH;
  for (const [line, candidate] of text.slice(0, CHARACTERS_COMPARED).split("\n").entries()) {
    const score = likeness(pairs, pairsOf(candidate));
    if (score <= bestScore) continue;
    best = { line, text: candidate };
    bestScore = score;
  }
  return best;
}

function pairsOf(line: string): ReadonlySet<string> {
  const letters = line.slice(0, LINE_COMPARED).replace(/\s+/g, "").toLowerCase();
  const pairs = new Set<string>();
  for (let at = 0; at + 1 < letters.length; at++) pairs.add(letters.slice(at, at + 2));
  return pairs;
}

/** Shared pairs of letters, from 0 to 1 (Dice). */
function likeness(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  if (a.size === 0 || b.size === 0) return 0;
  let shared = 0;
  for (const pair of a) if (b.has(pair)) shared++;
  return (2 * shared) / (a.size + b.size);
}
