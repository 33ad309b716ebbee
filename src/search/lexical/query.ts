import { findRelatedStems } from "./synonyms.ts";
import type { TermLookup } from "./term-lookup.ts";
import { type LexicalWord, softWords, stemWord, stopWords, tokenize } from "./tokenize.ts";
import { likeness, RARE, wordWeights } from "./weights.ts";

/** One thing that was asked for, and all it may be found by. */
export interface QueryTerm {
  /** The word it comes from, as it was written. */
  readonly written: string;
  /** How much finding it adds to a score: how rare it is, and how much such words usually say. */
  readonly weight: number;
  /** How much of the query it is. Rare words are more of it, though less so: where all know a word, it still was asked. */
  readonly share: number;
  /** Terms that somebody in scope holds, the truest first. */
  readonly found: readonly TermMatch[];
  /** Whether nearly everybody has it, so that having it tells nothing. */
  readonly isCommon?: boolean;
  /** Whether it counts in names alone. */
  readonly onlyNames?: true;
  /** Whether having it is reason enough to be shown. */
  readonly suffices?: true;
}

export interface TermMatch {
  readonly term: number;
  /** 1 for the word itself. */
  readonly likeness: number;
  /** The most that holding it can add. */
  readonly weight: number;
}

const QUERY_LIMIT = 10_000;
const WANTED_LIMIT = 64;

/** What a query asks for, in the order it was written. Words that only carry the sentence are left out. */
export function parseSearchQuery(query: string, lookup: TermLookup): readonly QueryTerm[] {
  const all = tokenize(query.slice(0, QUERY_LIMIT));
  const content = all.filter(({ plain }) => !stopWords.has(plain));
  // Where nothing else was asked, such a word may still be a name: `who`. In a description it says nothing.
  const onlyNames = content.length === 0;
  const words = onlyNames ? all : content;
  const wanted = new Map<string, QueryTerm>();
  for (const [index, word] of words.entries()) {
    for (const [term, share] of expandWord(word, lookup)) {
      if (wanted.size >= WANTED_LIMIT) return [...wanted.values()];
      if (wanted.has(term)) continue;
      const each = toQueryTerm(term, share, word, [words[index - 1], words[index + 1]], lookup);
      wanted.set(term, onlyNames ? { ...each, onlyNames: true } : each);
    }
  }
  return [...wanted.values(), ...(onlyNames ? [] : findQuestionTerms(query, lookup))];
}

const QUESTION = /^\P{L}*(?:what|which|how|who|where|when|is|are|do|does|did|has|have|show|tell|give)\b/iu;
const ANSWERING = ["get", "list", "show", "read", "fetch", "retrieve", "check"].map(stemWord);
const FEW = 20;

/**
 * A question may be for any action that looks something up, whatever it is about: "is the oven hot?" for `get_state`.
 * Only where these are few; of many, none would be more than a guess.
 */
function findQuestionTerms(query: string, lookup: TermLookup): readonly QueryTerm[] {
  if (!QUESTION.test(query)) return [];
  const terms = ANSWERING.flatMap((verb) => lookup.term(verb) ?? []);
  const holders = terms.reduce((sum, term) => sum + lookup.holders(term), 0);
  if (terms.length === 0 || holders > FEW) return [];
  const weight = wordWeights.question * lookup.rarity(terms);
  return [
    { written: "", weight, share: 0, suffices: true, found: terms.map((term) => ({ term, likeness: 1, weight })) },
  ];
}

/** `GitHub` is looked for as one word where somebody writes it so, and as its parts anyway. */
function expandWord(
  { terms, whole }: LexicalWord,
  lookup: TermLookup,
): readonly (readonly [term: string, share: number])[] {
  if (whole === undefined || lookup.term(whole) === undefined) return terms.map((term) => [term, 1]);
  return [[whole, 1], ...terms.map((term) => [term, wordWeights.part] as const)];
}

type Neighbours = readonly [before: LexicalWord | undefined, after: LexicalWord | undefined];

function toQueryTerm(
  term: string,
  share: number,
  word: LexicalWord,
  neighbours: Neighbours,
  lookup: TermLookup,
): QueryTerm {
  const own = lookup.term(term);
  const found = findCandidates(term, own, word, neighbours, lookup);
  const usual = share * getUsualWeight(word.plain);
  const rarity = lookup.rarity(own === undefined ? [...found.keys()] : [own]);
  return {
    written: word.written,
    isCommon: lookup.isCommon(own === undefined ? [...found.keys()] : [own]),
    weight: usual * rarity,
    share: usual * (1 - RARE + (RARE * rarity) / lookup.rarity([])),
    found: [...found]
      .map(([number, like]) => ({
        term: number,
        likeness: like,
        // Another word adds no more than the one that was asked for would, and no more than its own rarity.
        weight: usual * like * Math.min(rarity, lookup.rarity([number])),
      }))
      .sort((a, b) => b.likeness - a.likeness),
  };
}

/** Numbers of terms, each with how good a match it is. */
function findCandidates(
  term: string,
  own: number | undefined,
  word: LexicalWord,
  [before, after]: Neighbours,
  lookup: TermLookup,
): ReadonlyMap<number, number> {
  const found = new Map<number, number>();
  const add = (number: number | undefined, like: number): void => {
    if (number !== undefined && (found.get(number) ?? 0) < like) found.set(number, like);
  };
  add(own, 1);
  if (before !== undefined) add(lookup.term(stemWord(before.plain + word.plain)), likeness.joined);
  if (after !== undefined) add(lookup.term(stemWord(word.plain + after.plain)), likeness.joined);
  for (const other of findRelatedStems(term)) add(lookup.term(other), likeness.related);
  if (found.size > 0 || NUMBER.test(term)) return found;
  for (const number of lookup.halves(word.plain)) add(number, likeness.half);
  for (const number of lookup.forms(term)) add(number, likeness.form);
  if (found.size > 0) return found;
  const spelt = word.terms.length === 1 ? [term, word.plain] : [term];
  for (const { term: number, edits } of lookup.near(new Set(spelt))) add(number, likeness.typo / edits);
  return found;
}

function getUsualWeight(word: string): number {
  return NUMBER.test(word) ? wordWeights.number : softWords.has(word) ? wordWeights.soft : 1;
}

const NUMBER = /^\p{N}+$/u;
