import type { Action } from "../core/action.ts";
import { effectRank } from "../core/effect.ts";
import { editDistance } from "../core/nearest.ts";
import { withoutNamespace, wordsOf } from "./spelling.ts";
import { effectAsked, saysWhatItDoes } from "./verbs.ts";
import type { View } from "./view.ts";

const AT_MOST = 3;
const LIKE_ENOUGH = 0.4;
/** From here on it is a slip of the pen and not another word. */
const A_TYPO = 0.75;
const WORDS_LOOKED_AT = 12;
/** Only these many words may be misspelt: a server can fill the catalog with words that are nearly alike. */
const MISSPELT = 3;
const LOOKED_AT = 200;

/**
 * The visible actions whose names are most like `asked`, best first. Never one that could do more than the name that
 * was written says: a model that mistypes a look-up is not offered a deletion.
 */
export function suggestions(view: View, asked: string): readonly Action[] {
  const text = withoutNamespace(asked).toLowerCase();
  const words = [...new Set(wordsOf(text))].slice(0, WORDS_LOOKED_AT);
  const found = candidates(view, words);
  const weigh = weights(found);
  const scored: { action: Action; score: number; likeness: number }[] = [];
  for (const [action, own] of found) {
    const likeness = similarity(text, action.name);
    const score = Math.max(sharedWords(words, own, weigh), likeness >= A_TYPO ? likeness : 0);
    if (score >= LIKE_ENOUGH && withinEffect(action, words, score)) scored.push({ action, score, likeness });
  }
  scored.sort(
    (a, b) =>
      b.score - a.score ||
      b.likeness - a.likeness ||
      effectRank(a.action.effect) - effectRank(b.action.effect) ||
      (a.action.name < b.action.name ? -1 : 1),
  );
  return scored.slice(0, AT_MOST).map(({ action }) => action);
}

/**
 * The visible actions that share most words with what was asked, give or take a typo, each with its own words. Counting
 * over the index is cheap; only those that can win are looked at closely.
 */
function candidates(view: View, words: readonly string[]): ReadonlyMap<Action, readonly string[]> {
  const { spellings } = view.snapshot;
  const shared = new Map<Action, number>();
  for (const known of spellings.words) {
    if (!words.some((word, at) => (at < MISSPELT ? alike(word, known) : word === known))) continue;
    for (const action of spellings.holding(known)) shared.set(action, (shared.get(action) ?? 0) + 1);
  }
  const found = new Map<Action, readonly string[]>();
  for (let count = Math.max(0, ...new Set(shared.values())); count > 0 && found.size < LOOKED_AT; count--) {
    for (const action of view.snapshot.actions) {
      if (shared.get(action) !== count || !view.sees(action)) continue;
      found.set(action, [...new Set(wordsOf(action.name))]);
      if (found.size === LOOKED_AT) break;
    }
  }
  return found;
}

/** A word that few of them hold says more than a common one. Counted over what is visible, like everything here. */
function weights(found: ReadonlyMap<Action, readonly string[]>): (word: string) => number {
  const holders = new Map<string, number>();
  for (const own of found.values()) for (const word of own) holders.set(word, (holders.get(word) ?? 0) + 1);
  return (word) => 1 / (1 + Math.log1p(holders.get(word) ?? 0));
}

function withinEffect(action: Action, words: readonly string[], score: number): boolean {
  if (effectRank(action.effect) <= effectRank(effectAsked(words))) return true;
  return score >= A_TYPO && !saysWhatItDoes(words);
}

/** How much of both names is made of the same words. */
function sharedWords(asked: readonly string[], own: readonly string[], weigh: (word: string) => number): number {
  const total = (list: readonly string[]): number => list.reduce((sum, word) => sum + weigh(word), 0);
  const shared = own.filter((word) => asked.some((each) => alike(each, word)));
  return total(shared) / Math.max(total(own), total(asked));
}

function alike(a: string, b: string): boolean {
  if (a === b) return true;
  const bound = Math.min(a.length, b.length) < 4 ? 0 : Math.min(a.length, b.length) < 8 ? 1 : 2;
  return bound > 0 && editDistance(a, b, bound) <= bound;
}

function similarity(a: string, b: string): number {
  const longest = Math.max(a.length, b.length);
  // Names that differ in more than half are not told apart: finding out by how much takes long.
  return 1 - editDistance(a, b, longest >> 1) / longest;
}
