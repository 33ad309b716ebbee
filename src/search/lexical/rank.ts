import { LENGTH_LIMIT, lexicalFields, type Postings, unpackCount, unpackField } from "./postings.ts";
import type { QueryTerm } from "./query.ts";
import type { SearchScope } from "./term-lookup.ts";
import {
  COVERAGE,
  ENOUGH,
  LEAST_COVERED,
  LEAST_COVERED_BY_COMMON,
  NAMING,
  SATURATION,
  UNKNOWN,
  VERB_MATCH,
  WELL_COVERED,
} from "./weights.ts";

/** The lowest of the best `count` scores, or 0 if there are not more. */
export function findScoreCutoff(scores: Float64Array, count: number): number {
  if (scores.length <= count) return 0;
  // A min-heap: most scores are below its top and cost one comparison.
  const heap = scores.slice(0, count).sort();
  for (let at = count; at < scores.length; at++) {
    const score = scores[at] ?? 0;
    if (score > (heap[0] ?? 0)) replaceLeast(heap, score);
  }
  return heap[0] ?? 0;
}

function replaceLeast(heap: Float64Array, score: number): void {
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && (heap[child + 1] ?? 0) < (heap[child] ?? 0)) child++;
    if ((heap[child] ?? 0) >= score) break;
    heap[at] = heap[child] ?? 0;
    at = child;
  }
  heap[at] = score;
}

/** Reused sums, one per action. All are zero between two searches. */
export interface ScoreScratch {
  readonly sums: Float64Array;
  readonly covered: Float64Array;
  readonly named: Float64Array;
  readonly best: Float64Array;
}

export function createScratch(actions: number): ScoreScratch {
  const zeros = (): Float64Array => new Float64Array(actions);
  return { sums: zeros(), covered: zeros(), named: zeros(), best: zeros() };
}

export type LexicalScores = { readonly places: readonly number[]; readonly scores: Float64Array };

const BELOW_ONE = 0.99;
const NAME = lexicalFields.indexOf("name");

interface ScoredQuery {
  readonly terms: readonly QueryTerm[];
  readonly verbs: number;
  /** The score that the best action must reach, unless it covers the query well. */
  readonly floor: number;
}

/** Scores the visible actions that match a term. Returns none if even the best one matches too little. */
export function scoreActions(
  { terms: wanted, verbs, floor }: ScoredQuery,
  postings: Postings,
  scope: SearchScope,
  scratch: ScoreScratch,
): LexicalScores {
  const places: number[] = [];
  for (const each of wanted) addUp(each, postings, scope, scratch, places);
  const possible = wanted.reduce((sum, { weight, found }) => sum + weight * (found.length === 0 ? UNKNOWN : 1), 0);
  const shares = wanted.reduce((sum, { share }) => sum + share, 0);
  const scores = new Float64Array(places.length);
  let mostCovered = 0;
  let best = 0;
  for (let at = 0; at < places.length; at++) {
    const place = places[at] ?? 0;
    const covered = scratch.covered[place] ?? 0;
    const nameLength = postings.lengths[place * lexicalFields.length + NAME] || 1;
    const naming = Math.min(1, (scratch.named[place] ?? 0) / nameLength);
    const does = postings.verbs[place] ?? 0;
    const score =
      ((scratch.sums[place] ?? 0) / possible) *
      (1 - COVERAGE + (COVERAGE * covered) / shares) *
      ((1 + NAMING * naming) / (1 + NAMING)) *
      (verbs === 0 || does === 0 ? 1 : (verbs & does) === 0 ? 1 - VERB_MATCH : 1 + VERB_MATCH);
    scores[at] = Math.min(BELOW_ONE, score);
    best = Math.max(best, score);
    mostCovered = Math.max(mostCovered, (covered / Math.min(shares, ENOUGH)) * (1 + naming));
    scratch.sums[place] = 0;
    scratch.covered[place] = 0;
    scratch.named[place] = 0;
  }
  const tells = wanted.some(({ found, isCommon }) => found.length > 0 && !isCommon);
  const isFaint = best * Math.max(1, shares / ENOUGH) < floor && mostCovered < WELL_COVERED;
  const fits = mostCovered >= (tells ? LEAST_COVERED : LEAST_COVERED_BY_COMMON) && !isFaint;
  return fits || wanted.some(({ suffices }) => suffices) ? { places, scores } : NOTHING;
}

const NOTHING: LexicalScores = { places: [], scores: new Float64Array(0) };

/** Adds the best match of one query term to the sums of each action. */
function addUp(
  { share, found, onlyNames }: QueryTerm,
  postings: Postings,
  scope: SearchScope,
  scratch: ScoreScratch,
  places: number[],
): void {
  const { starts, holders, places: fieldsAndCounts, lengths } = postings;
  const { visible, norms } = scope;
  const { sums, covered, named, best } = scratch;
  const holding: number[] = [];
  for (const { term, likeness, weight: most } of found) {
    const end = starts[term + 1] ?? 0;
    for (let at = starts[term] ?? 0; at < end; ) {
      const holder = holders[at] ?? 0;
      let often = 0;
      let inName = 0;
      for (; at < end && holders[at] === holder; at++) {
        const place = fieldsAndCounts[at] ?? 0;
        const field = unpackField(place);
        if (field === NAME) inName = likeness;
        const length = lengths[holder * lexicalFields.length + field] ?? 0;
        often += unpackCount(place) * (norms[field * (LENGTH_LIMIT + 1) + length] ?? 0);
      }
      if ((visible !== undefined && visible[holder] === 0) || (onlyNames && inName === 0)) continue;
      const before = best[holder] ?? 0;
      if (before === 0) {
        holding.push(holder);
        if (sums[holder] === 0) places.push(holder);
        covered[holder] = (covered[holder] ?? 0) + share * likeness;
      }
      named[holder] = (named[holder] ?? 0) + inName;
      const value = (most * often) / (SATURATION + often);
      if (value <= before) continue;
      sums[holder] = (sums[holder] ?? 0) + value - before;
      best[holder] = value;
    }
  }
  for (const holder of holding) best[holder] = 0;
}
