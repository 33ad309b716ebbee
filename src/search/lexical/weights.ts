import type { LexicalField } from "./postings.ts";

// Tuned together on train and dev splits of public tool-retrieval sets (`npm run bench:search` has the test splits).
// Around these values quality is flat: most can be halved or doubled for less than half a point.

/** What a word counts by where it stands, and how much a long text of that kind is held against it. */
export const fieldWeights: Readonly<Record<LexicalField, { readonly weight: number; readonly length: number }>> = {
  name: { weight: 3, length: 0.7 },
  namespace: { weight: 2, length: 0.3 },
  labels: { weight: 1.2, length: 0.3 },
  description: { weight: 1, length: 0.6 },
  parameters: { weight: 0.5, length: 0.6 },
  details: { weight: 0.3, length: 0.6 },
};

/** How soon more of the same word stops to count. */
export const SATURATION = 0.8;

/** How good a match it is when not the word itself was found but … */
export const likeness = {
  /** … what it makes with its neighbour, written as one. */
  joined: 0.8,
  /** … its halves: time and zone for timezone. */
  half: 0.5,
  /** … another word for the same, or for the kind of thing. */
  related: 0.5,
  /** … a longer or shorter form. */
  form: 0.4,
  /** … what it is a slip of the pen from; half of that for two slips. */
  typo: 0.5,
} as const;

/** How much a word says beside others. */
export const wordWeights = {
  /** Words that are in requests of every kind. */
  soft: 0.45,
  /** A number is mostly an argument. */
  number: 0.3,
  /** A part of a word that is also found as a whole. */
  part: 0.4,
  /** That something is a question. */
  question: 0.2,
} as const;

/** How much of what a word is of a query depends on how rare it is. */
export const RARE = 0.5;
/** How much of the score depends on how much of the query was found. */
export const COVERAGE = 0.3;
/** How much more it is worth to be named in full by the query. */
export const NAMING = 0.4;
/** What is added when the name does what the query asks to do, and taken off when it does something else. */
export const VERB_MATCH = 0.1;

/** The best one must have so much of what was asked for, or nothing fits. */
export const LEAST_COVERED = 0.3;
/** Of a long query, having as much as so many words are is having all: most of a sentence is not about the tool. */
export const ENOUGH = 3;
/** … or so much, where it has only words that nearly everybody has: `rename a file`, where all are about files. */
export const LEAST_COVERED_BY_COMMON = 0.5;
/** So many of all are nearly everybody. */
export const COMMON = 0.8;
/** How much a word that nobody has weighs in what could be reached: it may be a name, a value, or beside the point. */
export const UNKNOWN = 0.5;
