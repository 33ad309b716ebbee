import { z } from "zod";
import type { Found } from "../search/search.ts";

const HIGHEST_LIMIT = 20;

/** How many hits a model asks for, as its tool says it. */
export const limitShape = z.int().min(1).describe(`At most ${HIGHEST_LIMIT}`).default(8);

/** How many it is given. */
export function cutLimit(limit: number): number {
  return Math.min(limit, HIGHEST_LIMIT);
}

/** What is said beside the hits: the search's own note, and where there are no hits what to do `next`. */
export function hintOf({ hits, note }: Found, next: () => string): string | undefined {
  if (hits.length > 0) return note;
  return note === undefined ? next() : `${next()} ${note}`;
}

/** The part of an answer that every search has. */
export function howFound({ effective, unmatched }: Found, hint: string | undefined) {
  return {
    search_type: effective,
    ...(unmatched.length === 0 ? {} : { unmatched }),
    ...(hint === undefined ? {} : { hint }),
  };
}

/** The same in the lines that a model reads. `nobody`: how those are called who could have had the words. */
export function saidBeside(nobody: string, { unmatched }: Found, hint: string | undefined): readonly string[] {
  const missing = unmatched.length === 0 ? [] : [`${nobody} has: ${unmatched.join(", ")}`];
  return hint === undefined ? missing : [...missing, hint];
}
