import type { LexicalField } from "./postings.ts";

// Tuned together on train and dev splits of public tool-retrieval sets (`npm run bench:search` has the test splits).
// Most can be halved or doubled and change the quality by less than half a point.

/** The weight of a word by field, and how much a long text reduces it. */
export const fieldWeights: Readonly<Record<LexicalField, { readonly weight: number; readonly length: number }>> = {
  name: { weight: 3, length: 0.7 },
  namespace: { weight: 2, length: 0.3 },
  labels: { weight: 1.2, length: 0.3 },
  description: { weight: 1, length: 0.6 },
  parameters: { weight: 0.5, length: 0.6 },
  details: { weight: 0.3, length: 0.6 },
};

/** How soon more of the same word stops counting. */
export const SATURATION = 0.8;

/** How much a match of a similar word counts. */
export const likeness = {
  joined: 0.8, // The word and its neighbour, written as one
  half: 0.5, // Its halves: time and zone for timezone
  related: 0.5, // A synonym or a broader term
  form: 0.4, // A longer or shorter form
  typo: 0.5, // A word one typo away; half of that for two typos
} as const;

export const wordWeights = {
  soft: 0.45, // Words in all kinds of requests
  number: 0.3, // A number is mostly an argument
  part: 0.4, // A part of a word that also matches as a whole
  question: 0.2, // The query is a question
} as const;

/** How much the share of a word in the query depends on its rarity. */
export const RARE = 0.5;
/** How much the score depends on the matched share of the query. */
export const COVERAGE = 0.3;
/** How much it adds if the query has all words of the name. */
export const NAMING = 0.4;
/** Added if the name has a verb of the query, subtracted if it has another. */
export const VERB_MATCH = 0.1;
/** The best action must match this share of the query, or there is no hit. */
export const LEAST_COVERED = 0.3;
/** In a long query, this many matched words count as all: most of a sentence is not about the tool. */
export const ENOUGH = 3;
/** The same, if only common words match: `rename a file`, where all actions are about files. */
export const LEAST_COVERED_BY_COMMON = 0.5;
/** A word that this share of the actions has is common. */
export const COMMON = 0.8;
/** The weight of a word that no action has: it may be a name or a value. */
export const UNKNOWN = 0.5;
/** The best action must reach this score or cover the query well. In a query of more than `ENOUGH` words less will do. */
export const LEAST_SCORE = 0.1;
export const WELL_COVERED = 0.5;
