import type { Action } from "../core/action.ts";
import { type Effect, getEffectRank } from "../core/action.ts";
import { QmError } from "../core/errors.ts";
import { getOwn } from "../core/json.ts";
import { NAME_LIMIT, parseActionName, quoteName, SEPARATOR } from "../core/names.ts";
import { editDistance } from "../core/nearest.ts";
import { categoryRedirects, isReservedName, splitNameWords, stripNamespace } from "./spelling.ts";
import type { View } from "./view.ts";

// Words that say what somebody who wrote a name meant to do. They only ever hold a repair back; what an action can do
// is stated by whoever supplies it.
const readVerbs = new Set(
  "read get list show find search look lookup fetch view query check count describe glob grep load recall open cat head tail stat inspect explain preview".split(
    " ",
  ),
);
const changeVerbs = new Set(
  "write create update edit set add put post send delete remove drop rm move rename install run execute exec call invoke start stop kill save store insert append patch deploy publish merge close approve remember forget delegate upload".split(
    " ",
  ),
);

/**
 * The most dangerous effect that a name, as it was written, can have meant: only looking when it says so, anything when
 * it says that it changes something, and only looking when it says neither.
 */
function detectEffect(words: readonly string[]): Effect {
  if (words.some((word) => changeVerbs.has(word))) return "stateful";
  return "read";
}

function hasVerb(words: readonly string[]): boolean {
  return words.some((word) => changeVerbs.has(word) || readVerbs.has(word));
}

const SUGGESTION_LIMIT = 3;
const MIN_SCORE = 0.4;
/** From here on it is a slip of the pen and not another word. */
const TYPO_SCORE = 0.75;
const WORD_LIMIT = 12;
/** Only these many words may be misspelt: a server can fill the catalog with words that are nearly alike. */
const MISSPELT_WORD_LIMIT = 3;
const CANDIDATE_LIMIT = 200;

/**
 * The visible actions whose names are most like `asked`, best first. Never one that could do more than the name that
 * was written says: a model that mistypes a look-up is not offered a deletion.
 */
function suggestActions(view: View, asked: string): readonly Action[] {
  const text = stripNamespace(asked).toLowerCase();
  const words = [...new Set(splitNameWords(text))].slice(0, WORD_LIMIT);
  const found = findCandidates(view, words);
  const weigh = createWeights(found);
  const scored: { action: Action; score: number; likeness: number }[] = [];
  for (const [action, own] of found) {
    const likeness = measureSimilarity(text, action.name);
    const score = Math.max(scoreSharedWords(words, own, weigh), likeness >= TYPO_SCORE ? likeness : 0);
    if (score >= MIN_SCORE && isWithinEffect(action, words, score)) scored.push({ action, score, likeness });
  }
  scored.sort(
    (a, b) =>
      b.score - a.score ||
      b.likeness - a.likeness ||
      getEffectRank(a.action.effect) - getEffectRank(b.action.effect) ||
      (a.action.name < b.action.name ? -1 : 1),
  );
  return scored.slice(0, SUGGESTION_LIMIT).map(({ action }) => action);
}

/**
 * The visible actions that share most words with what was asked, give or take a typo, each with its own words. Counting
 * over the index is cheap; only those that can win are looked at closely.
 */
function findCandidates(view: View, words: readonly string[]): ReadonlyMap<Action, readonly string[]> {
  const { spellings } = view.snapshot;
  const shared = new Map<Action, number>();
  for (const known of spellings.words) {
    if (!words.some((word, at) => (at < MISSPELT_WORD_LIMIT ? isAlike(word, known) : word === known))) continue;
    for (const action of spellings.findByWord(known)) shared.set(action, (shared.get(action) ?? 0) + 1);
  }
  const found = new Map<Action, readonly string[]>();
  for (let count = Math.max(0, ...new Set(shared.values())); count > 0 && found.size < CANDIDATE_LIMIT; count--) {
    for (const action of view.snapshot.actions) {
      if (shared.get(action) !== count || !view.sees(action)) continue;
      found.set(action, [...new Set(splitNameWords(action.name))]);
      if (found.size === CANDIDATE_LIMIT) break;
    }
  }
  return found;
}

/** A word that few of them hold says more than a common one. Counted over what is visible, like everything here. */
function createWeights(found: ReadonlyMap<Action, readonly string[]>): (word: string) => number {
  const holders = new Map<string, number>();
  for (const own of found.values()) for (const word of own) holders.set(word, (holders.get(word) ?? 0) + 1);
  return (word) => 1 / (1 + Math.log1p(holders.get(word) ?? 0));
}

function isWithinEffect(action: Action, words: readonly string[], score: number): boolean {
  if (getEffectRank(action.effect) <= getEffectRank(detectEffect(words))) return true;
  return score >= TYPO_SCORE && !hasVerb(words);
}

/** How much of both names is made of the same words. */
function scoreSharedWords(asked: readonly string[], own: readonly string[], weigh: (word: string) => number): number {
  const total = (list: readonly string[]): number => list.reduce((sum, word) => sum + weigh(word), 0);
  const shared = own.filter((word) => asked.some((each) => isAlike(each, word)));
  return total(shared) / Math.max(total(own), total(asked));
}

function isAlike(a: string, b: string): boolean {
  if (a === b) return true;
  const bound = Math.min(a.length, b.length) < 4 ? 0 : Math.min(a.length, b.length) < 8 ? 1 : 2;
  return bound > 0 && editDistance(a, b, bound) <= bound;
}

function measureSimilarity(a: string, b: string): number {
  const longest = Math.max(a.length, b.length);
  // Names that differ in more than half are not told apart: finding out by how much takes long.
  return 1 - editDistance(a, b, longest >> 1) / longest;
}

export interface ResolvedAction {
  readonly action: Action;
  /** `exact`: the name itself; `alias`: another name it has; `respelled`: the only one made of the same words. */
  readonly how: "exact" | "alias" | "respelled";
}

/**
 * The action a caller means by `asked`, out of what the caller may see. Throws `unknown_action` when there is none or
 * more than one; a hidden action and one that does not exist answer alike, because nothing here knows of hidden ones.
 */
export function resolveAction(view: View, asked: string): ResolvedAction {
  const exact = view.get(asked);
  if (exact !== undefined) return { action: exact, how: "exact" };
  if (isReservedName(asked)) throw createUnknownActionError(view, asked);
  const alias = pickOnly(findAliased(view, asked));
  if (alias !== undefined) return { action: alias, how: "alias" };
  const respelled = pickOnly(findRespellings(view, asked));
  if (respelled !== undefined) return { action: respelled, how: "respelled" };
  throw createUnknownActionError(view, asked);
}

/** The structured answer to a name that leads nowhere. */
function createUnknownActionError(view: View, asked: string): QmError {
  const found = asked.length > NAME_LIMIT ? [] : suggestActions(view, asked);
  return new QmError("unknown_action", `Unknown action ${quoteName(asked)}`, {
    details: {
      reason:
        parseActionName(asked) === undefined
          ? "It is not written as <category>__<entry>."
          : "No action of that name is available to you.",
      suggestions: found.map((action) => action.name),
    },
    hint:
      found.length > 0
        ? "Use one of the suggestions, search for the name, or browse with list_actions."
        : "Search for the name, or browse with list_actions(category=[...]).",
  });
}

function findAliased(view: View, asked: string): readonly Action[] {
  const declared = view.snapshot.spellings.findByAlias(asked).filter(view.sees);
  if (declared.length > 0) return declared;
  const at = asked.indexOf(SEPARATOR);
  const category = at < 0 ? undefined : getOwn(categoryRedirects, asked.slice(0, at));
  const moved = category === undefined ? undefined : view.get(category + asked.slice(at));
  return moved === undefined ? [] : [moved];
}

function findRespellings(view: View, asked: string): readonly Action[] {
  if (asked.length > NAME_LIMIT) return [];
  const words = splitNameWords(stripNamespace(asked));
  if (words.length === 0) return [];
  return view.snapshot.spellings
    .findByWords(words)
    .filter((action) => view.sees(action) && hasAllowedEffect(action, words));
}

/**
 * Whether running `action` for a name written with these words stays within what was asked for. The same words in the
 * same order are the same name in other clothes; anything looser must not turn looking into changing.
 */
function hasAllowedEffect(action: Action, words: readonly string[]): boolean {
  const spelt = words.join(" ");
  if (spelt === splitNameWords(action.name).join(" ") || spelt === splitNameWords(action.entry).join(" ")) return true;
  return getEffectRank(action.effect) <= getEffectRank(detectEffect(words));
}

function pickOnly(actions: readonly Action[]): Action | undefined {
  return actions.length === 1 ? actions[0] : undefined;
}
