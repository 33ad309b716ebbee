import type { Action } from "../core/action.ts";
import { matchesGlob } from "../core/glob.ts";
import { didYouMean } from "../core/nearest.ts";
import { type PatternSet, spellings } from "../core/patterns.ts";
import type { Policy } from "./policy.ts";

/**
 * What is written in a policy and has no effect, because nothing is called that: most often a misspelt name, and a
 * misspelt name under `denied` denies nothing. Names that actors list are not among them; they keep an actor from
 * starting.
 */
export function policyWarnings({ tools, actors }: Policy, actions: readonly Action[]): readonly string[] {
  const known = new Set(actions.flatMap(spellings));
  const idle = (place: string, patterns: Iterable<string>): readonly string[] =>
    [...patterns]
      .filter((pattern) => ![...known].some((name) => matchesGlob(pattern, name)))
      .map((pattern) => `${place} lists ${JSON.stringify(pattern)}, which no action fits${didYouMean(pattern, known)}`);
  const all = ({ exact, globs }: PatternSet) => [...exact, ...globs];
  return [
    ...idle("policy.denied", all(tools.denied)),
    ...(tools.allowed === undefined ? [] : idle("policy.allowed", all(tools.allowed))),
    ...[...actors.values()].flatMap(({ name, tools: { globs } }) => idle(`actor ${name}`, globs)),
  ];
}
