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
} from "./weights.ts";

/** The score that the best `count` have at least; 0 when there are not more. Looks at each once. */
export function findScoreCutoff(scores: Float64Array, count: number): number {
  if (scores.length <= count) return 0;
  // A heap with its least on top: most scores are below it and cost one comparison.
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

/** Room to add up in, one place an action; zero wherever nobody is adding up. */
export interface ScoreScratch {
  readonly sums: Float64Array;
  readonly covered: Float64Array;
  readonly named: Float64Array;
  readonly best: Float64Array;
}

export function createScratch(actions: number): ScoreScratch {
  return {
    sums: new Float64Array(actions),
    covered: new Float64Array(actions),
    named: new Float64Array(actions),
    best: new Float64Array(actions),
  };
}

/** Actions by their places in the index and, in the other list, their scores. */
export interface LexicalScores {
  readonly places: readonly number[];
  readonly scores: Float64Array;
}

const BELOW_ONE = 0.99;
const NAME = lexicalFields.indexOf("name");

/** Every action in scope that has something of what is wanted, or none when even the best has next to nothing. */
export function scoreActions(
  wanted: readonly QueryTerm[],
  deeds: number,
  postings: Postings,
  scope: SearchScope,
  scratch: ScoreScratch,
): LexicalScores {
  const places: number[] = [];
  for (const each of wanted) addUp(each, postings, scope, scratch, places);
  const asked = wanted.reduce((sum, { weight, found }) => sum + weight * (found.length === 0 ? UNKNOWN : 1), 0);
  const shares = wanted.reduce((sum, { share }) => sum + share, 0);
  const scores = new Float64Array(places.length);
  let mostCovered = 0;
  for (let at = 0; at < places.length; at++) {
    const place = places[at] ?? 0;
    const covered = scratch.covered[place] ?? 0;
    const naming = Math.min(
      1,
      (scratch.named[place] ?? 0) / (postings.lengths[place * lexicalFields.length + NAME] ?? 1),
    );
    const does = postings.verbs[place] ?? 0;
    const score =
      ((scratch.sums[place] ?? 0) / asked) *
      (1 - COVERAGE + (COVERAGE * covered) / shares) *
      ((1 + NAMING * naming) / (1 + NAMING)) *
      (deeds === 0 || does === 0 ? 1 : (deeds & does) === 0 ? 1 - VERB_MATCH : 1 + VERB_MATCH);
    scores[at] = Math.min(BELOW_ONE, score);
    mostCovered = Math.max(mostCovered, (covered / Math.min(shares, ENOUGH)) * (1 + naming));
    scratch.sums[place] = 0;
    scratch.covered[place] = 0;
    scratch.named[place] = 0;
  }
  const tells = wanted.some(({ found, isCommon }) => found.length > 0 && !isCommon);
  const fits =
    mostCovered >= (tells ? LEAST_COVERED : LEAST_COVERED_BY_COMMON) || wanted.some(({ suffices }) => suffices);
  return fits ? { places, scores } : NOTHING;
}

const NOTHING: LexicalScores = { places: [], scores: new Float64Array(0) };

/** Adds what each action has of one wanted thing: the best of what it has, however many other words for it there are. */
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
      // The fields of one action that hold the term stand in a row.
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
