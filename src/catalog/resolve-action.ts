import { type Action, getEffectRank, hasSideEffects } from "../core/action.ts";
import { QmError } from "../core/errors.ts";
import { NAME_LIMIT, parseActionName, quoteName, SEPARATOR } from "../core/names.ts";
import { editDistance } from "../core/nearest.ts";
import type { PendingSource } from "./define-action.ts";
import { followRedirect, isReservedName, splitNameWords, stripNamespace } from "./spelling.ts";
import type { View } from "./view.ts";

export interface ResolvedAction {
  readonly action: Action;
  /** `respelled`: it is the only action made of the same words. */
  readonly how: "exact" | "alias" | "respelled";
}

/** Finds the one visible action a caller means. Throws `unknown_action`, the same for hidden and missing ones. */
export function resolveAction(view: View, asked: string): ResolvedAction {
  const exact = view.get(asked);
  if (exact !== undefined) return { action: exact, how: "exact" };
  if (isReservedName(asked)) throw createUnknownActionError(view, asked);
  const [alias, ...otherAliases] = findAliased(view, asked);
  if (alias !== undefined && otherAliases.length === 0) return { action: alias, how: "alias" };
  const [respelled, ...others] = findRespellings(view, asked);
  if (respelled !== undefined && others.length === 0) return { action: respelled, how: "respelled" };
  throw createUnknownActionError(view, asked);
}

function createUnknownActionError(view: View, asked: string): QmError {
  const suggestions = asked.length > NAME_LIMIT ? [] : suggestActions(view, asked).map(({ name }) => name);
  const reason =
    parseActionName(asked) === undefined
      ? "It is not written as <category>__<entry>."
      : "No action of that name is available to you.";
  const find = "Search for it with {search}. Browse with {list}.";
  const hint = suggestions.length > 0 ? `Use one of the suggestions. ${find}` : find;
  const message = `Unknown action ${quoteName(asked)}`;
  const isNamed = ({ prefix }: PendingSource) => asked.startsWith(prefix);
  const pending = [...view.pending()]
    .sort((a, b) => Number(isNamed(b)) - Number(isNamed(a)))
    .slice(0, PENDING_LIMIT)
    .map(({ name }) => name);
  const details = { reason, suggestions, ...(pending.length === 0 ? {} : { pending }) };
  return new QmError("unknown_action", message, { details, hint });
}

function findAliased(view: View, asked: string): readonly Action[] {
  const declared = view.snapshot.spellings.findByAlias(asked).filter(view.sees);
  if (declared.length > 0) return declared;
  const present = followRedirect(asked);
  // A category of the former name that exists is the one that is meant.
  const isMoved = present !== asked && view.inCategory(asked.slice(0, asked.indexOf(SEPARATOR))).length === 0;
  const moved = isMoved ? view.get(present) : undefined;
  return moved === undefined ? [] : [moved];
}

function findRespellings(view: View, asked: string): readonly Action[] {
  if (asked.length > NAME_LIMIT) return [];
  const words = splitNameWords(stripNamespace(asked));
  if (words.length === 0) return [];
  return view.snapshot.spellings.findByWords(words).filter((action) => view.sees(action) && canRespell(action, words));
}

/** The same words in the same order are the same name. In another order, reading must not turn into changing. */
function canRespell(action: Action, words: readonly string[]): boolean {
  const spelt = words.join(" ");
  if (spelt === splitNameWords(action.name).join(" ") || spelt === splitNameWords(action.entry).join(" ")) return true;
  return isAskedFor(action, words);
}

// Verbs limit what a misspelt name may be repaired to. What an action can do is its declared effect.
const READ_VERBS =
  "read get list show find search look lookup fetch view query check count describe glob grep load recall open cat head tail stat inspect explain preview";
const CHANGE_VERBS =
  "write create update edit set add put post send delete remove drop rm move rename install run execute exec call invoke start stop kill save store insert append patch deploy publish merge close approve remember forget delegate upload";
const readVerbs = new Set(READ_VERBS.split(" "));
const changeVerbs = new Set(CHANGE_VERBS.split(" "));

/** Whether the action does no more than a name of these words asks for: only a verb of change allows more than reading. */
const isAskedFor = ({ effect }: Action, words: readonly string[]): boolean =>
  !hasSideEffects(effect) || words.some((word) => changeVerbs.has(word));
const SUGGESTION_LIMIT = 3;
const PENDING_LIMIT = 5;
const MIN_SCORE = 0.4;
/** From here on the name counts as a typo. */
const TYPO_SCORE = 0.75;
const WORD_LIMIT = 12;
/** Limited, because a server can fill the catalog with words that are nearly alike. */
const MISSPELT_WORD_LIMIT = 3;
const CANDIDATE_LIMIT = 200;

/** The visible actions with the most similar names, best first. A mistyped look-up is never answered with a deletion. */
function suggestActions(view: View, asked: string): readonly Action[] {
  const text = stripNamespace(asked).toLowerCase();
  const words = [...new Set(splitNameWords(text))].slice(0, WORD_LIMIT);
  const found = findCandidates(view, words);
  const weigh = createWeights(found);
  const scored: { action: Action; score: number; likeness: number }[] = [];
  for (const [action, own] of found) {
    const likeness = measureSimilarity(text, action.name);
    const score = Math.max(scoreSharedWords(words, own, weigh), likeness >= TYPO_SCORE ? likeness : 0);
    if (score >= MIN_SCORE && canSuggest(action, words, score)) scored.push({ action, score, likeness });
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

/** The visible actions that share most words with the name, with typos, and their words. Only these are compared closely. */
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

/** A rare word weighs more than a common one. Only visible actions count. */
function createWeights(found: ReadonlyMap<Action, readonly string[]>): (word: string) => number {
  const holders = new Map<string, number>();
  for (const own of found.values()) for (const word of own) holders.set(word, (holders.get(word) ?? 0) + 1);
  return (word) => 1 / (1 + Math.log1p(holders.get(word) ?? 0));
}

const canSuggest = (action: Action, words: readonly string[], score: number): boolean =>
  isAskedFor(action, words) || (score >= TYPO_SCORE && !words.some((word) => readVerbs.has(word)));

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
  // Bounded at half the length, because a larger distance takes long to compute.
  return 1 - editDistance(a, b, longest >> 1) / longest;
}
