import { findRelatedStems } from "./synonyms.ts";
import type { TermLookup } from "./term-lookup.ts";
import { type LexicalWord, particles, softWords, stemWord, stopWords, tokenize } from "./tokenize.ts";
import { likeness, RARE, wordWeights } from "./weights.ts";

export interface QueryTerm {
  readonly written: string;
  /** How much a match adds to the score. Rare words add more. */
  readonly weight: number;
  /** Its share of the query. Rare words have more, but less than by weight: a common word was asked for, too. */
  readonly share: number;
  /** Terms of visible actions, the best match first. */
  readonly found: readonly TermMatch[];
  readonly isCommon?: boolean;
  readonly onlyNames?: true;
  /** Whether it alone makes an action a hit. */
  readonly suffices?: true;
}

export interface TermMatch {
  readonly term: number;
  /** 1 for the word itself. */
  readonly likeness: number;
  readonly weight: number;
}

const QUERY_LIMIT = 10_000;
const WANTED_LIMIT = 64;

/** The terms of a query in their order, without stop words. A query of stop words only is searched for them. */
export function parseSearchQuery(query: string, lookup: TermLookup, inNotes = false): readonly QueryTerm[] {
  const all = tokenize(query.slice(0, QUERY_LIMIT));
  const content = all.filter(({ plain }) => !stopWords.has(plain));
  // In a query of stop words only, such as `who`, they may be a name. In descriptions of actions they mean nothing.
  const words = content.length === 0 ? all : content;
  const onlyNames = content.length === 0 && !inNotes;
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
const ANSWERING = ["get", "list", "show", "read", "fetch", "retrieve", "check"];
const FEW = 20;

/** A question may need any action that looks something up: `get_state` for "is the oven hot?". Only if they are few. */
function findQuestionTerms(query: string, lookup: TermLookup): readonly QueryTerm[] {
  if (!QUESTION.test(query)) return [];
  const terms = ANSWERING.flatMap((verb) => lookup.term(stemWord(verb)) ?? []);
  const holders = terms.reduce((sum, term) => sum + lookup.holders(term), 0);
  if (terms.length === 0 || holders > FEW) return [];
  const weight = wordWeights.question * lookup.rarity(terms);
  const found = terms.map((term) => ({ term, likeness: 1, weight }));
  return [{ written: "", weight, share: 0, suffices: true, found }];
}

/** Searches for `GitHub` as its parts, and as one word if a visible action has it. */
function expandWord({ terms, whole }: LexicalWord, lookup: TermLookup): readonly (readonly [string, number])[] {
  if (whole === undefined || lookup.term(whole) === undefined) return terms.map((term) => [term, 1]);
  return [[whole, 1], ...terms.map((term) => [term, wordWeights.part] as const)];
}

type Neighbours = readonly [before: LexicalWord | undefined, after: LexicalWord | undefined];

function toQueryTerm(term: string, share: number, word: LexicalWord, neighbours: Neighbours, lookup: TermLookup) {
  const own = lookup.term(term);
  const found = findCandidates(term, word, neighbours, lookup);
  const usual = share * getUsualWeight(word.plain);
  const matching = own === undefined ? [...found.keys()] : [own];
  const rarity = lookup.rarity(matching);
  return {
    written: word.written,
    isCommon: lookup.isCommon(matching),
    weight: usual * rarity,
    share: usual * (1 - RARE + (RARE * rarity) / lookup.rarity([])),
    found: [...found]
      .map(([number, like]) => ({
        term: number,
        likeness: like,
        // A similar word adds no more than the word of the query would, and no more than by its own rarity.
        weight: usual * like * Math.min(rarity, lookup.rarity([number])),
      }))
      .sort((a, b) => b.likeness - a.likeness),
  };
}

function findCandidates(term: string, word: LexicalWord, [before, after]: Neighbours, lookup: TermLookup) {
  const found = new Map<number, number>();
  const add = (number: number | undefined, like: number): void => {
    if (number !== undefined && (found.get(number) ?? 0) < like) found.set(number, like);
  };
  add(lookup.term(term), 1);
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

export const getUsualWeight = (word: string): number =>
  NUMBER.test(word) ? wordWeights.number : softWords.has(word) || particles.has(word) ? wordWeights.soft : 1;
const NUMBER = /^\p{N}+$/u;
