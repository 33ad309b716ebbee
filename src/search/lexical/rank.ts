import { fields, FIELD } from "./fields.ts";
import { countOf, fieldOf, LENGTH_LIMIT, type Postings } from "./postings.ts";
import type { Wanted } from "./query.ts";
import type { Scope } from "./scope.ts";
import { weights } from "./weights.ts";

/** Room to add up in, one place an action; zero wherever nobody is adding up. */
export interface Scratch {
  readonly sums: Float64Array;
  readonly covered: Float64Array;
  readonly named: Float64Array;
  readonly best: Float64Array;
}

export function scratchFor(actions: number): Scratch {
  return {
    sums: new Float64Array(actions),
    covered: new Float64Array(actions),
    named: new Float64Array(actions),
    best: new Float64Array(actions),
  };
}

/** Actions and, at the same place of the other list, their scores. */
export interface Scores {
  readonly places: readonly number[];
  readonly scores: Float64Array;
}

/** Every action in scope that holds something of what is wanted and holds enough of it, with a score below 1. */
export function scored(wanted: readonly Wanted[], postings: Postings, scope: Scope, scratch: Scratch, deed = 0): Scores {
  const { sums, covered, named } = scratch;
  const { lengths } = postings;
  const touched: number[] = [];
  for (const each of wanted) if (each.found.length > 0) addUp(each, postings, scope, scratch, touched);
  const most = wanted.reduce((sum, { weight }) => sum + weight, 0);
  const enough = Math.min(most, weights.cap * Math.log(2 * scope.count + 2));
  let bestCover = 0;
  const scores = new Float64Array(touched.length);
  for (let at = 0; at < touched.length; at++) {
    const place = touched[at] ?? 0;
    const sum = (sums[place] ?? 0) / most;
    const cover = (covered[place] ?? 0) / most;
    const naming = Math.min(1, (named[place] ?? 0) / (lengths[place * fields.length + FIELD.name] ?? 1));
    scores[at] = (sum * (1 - weights.coverage + weights.coverage * cover) * (1 + weights.naming * naming)) / (1 + weights.naming);
    const own = postings.deeds[place] ?? 0;
    if (deed > 0 && own > 0) scores[at] = (scores[at] ?? 0) * (deed === own ? 1 + weights.verb : 1 - weights.other);
    bestCover = Math.max(bestCover, Math.min(1, (covered[place] ?? 0) / enough) * (1 + weights.gateNamed * naming));
    sums[place] = 0;
    covered[place] = 0;
    named[place] = 0;
  }
  if (bestCover < weights.gate) return { places: [], scores: new Float64Array(0) };
  return { places: touched, scores };
}

/** Adds what each action has of one wanted thing: the best of what it has, however many other words for it there are. */
function addUp({ weight, found }: Wanted, postings: Postings, scope: Scope, scratch: Scratch, touched: number[]): void {
  const { starts, holders, places, lengths } = postings;
  const { visible, norms } = scope;
  const { sums, covered, named, best } = scratch;
  const holding: number[] = [];
  for (const { term, likeness, weight: own } of found) {
    const end = starts[term + 1] ?? 0;
    for (let at = starts[term] ?? 0; at < end; ) {
      const holder = holders[at] ?? 0;
      let often = 0;
      let inName = 0;
      // The fields of one action that hold the term stand in a row.
      for (; at < end && holders[at] === holder; at++) {
        const place = places[at] ?? 0;
        const field = fieldOf(place);
        if (field === FIELD.name) inName = likeness;
        const length = lengths[holder * fields.length + field] ?? 0;
        often += countOf(place) * (norms[field * (LENGTH_LIMIT + 1) + length] ?? 0);
      }
      if (visible !== undefined && visible[holder] === 0) continue;
      if (best[holder] === 0) {
        holding.push(holder);
        if (covered[holder] === 0) touched.push(holder);
        covered[holder] = (covered[holder] ?? 0) + weight * likeness;
      }
      named[holder] = (named[holder] ?? 0) + inName;
      const value = (own * often) / (weights.k1 + often);
      const before = best[holder] ?? 0;
      if (value > before) {
        sums[holder] = (sums[holder] ?? 0) + value - before;
        best[holder] = value;
      }
    }
  }
  for (const holder of holding) best[holder] = 0;
}
