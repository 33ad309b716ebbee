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

/**
 * The visible actions whose names are most like `asked`, best first. Never one that could do more than the name that
 * was written says: a model that mistypes a look-up is not offered a deletion.
 */
export function suggestions(view: View, asked: string): readonly Action[] {
  const text = withoutNamespace(asked).toLowerCase();
  const words = [...new Set(wordsOf(text))].slice(0, WORDS_LOOKED_AT);
  const found = candidates(view, words);
  const weigh = weights(found);
  const scored: { action: Action; score: number }[] = [];
  for (const [action, own] of found) {
    const score = Math.max(sharedWords(words, own, weigh), similarity(text, action.name));
    if (score >= LIKE_ENOUGH && withinEffect(action, words, score)) scored.push({ action, score });
  }
  scored.sort(
    (a, b) =>
      b.score - a.score ||
      effectRank(a.action.effect) - effectRank(b.action.effect) ||
      (a.action.name < b.action.name ? -1 : 1),
  );
  return scored.slice(0, AT_MOST).map(({ action }) => action);
}

/** Visible actions that share a word with what was asked, give or take a typo, each with its own words. */
function candidates(view: View, words: readonly string[]): ReadonlyMap<Action, readonly string[]> {
  const { spellings } = view.snapshot;
  const found = new Map<Action, readonly string[]>();
  for (const known of spellings.words) {
    if (!words.some((word) => alike(word, known))) continue;
    for (const action of spellings.holding(known)) {
      if (!found.has(action) && view.sees(action)) found.set(action, [...new Set(wordsOf(action.name))]);
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
  const bound = Math.floor(longest * (1 - A_TYPO));
  const distance = editDistance(a, b, bound);
  return distance > bound ? 0 : 1 - distance / longest;
}
