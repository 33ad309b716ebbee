import type { Finding } from "./finding.ts";
import { folded, unleeted, type Word } from "./words.ts";

/** Which names mean something where a definition is read. */
export interface Surroundings {
  /** Whether the server itself offers a tool of that name. */
  isOwn(name: string): boolean;
  /** Whether another server offers a tool of that name. */
  isOthers(name: string): boolean;
  /** Whether it would be read as the name of another server's tool, and is written with other characters. */
  resembles(name: string): boolean;
}

export function surroundings(own: Iterable<string>, others: Iterable<string>): Surroundings {
  const ownNames = new Set(own);
  const otherNames = new Set(others);
  const keys = new Set(Array.from(otherNames, keyOf));
  return {
    isOwn: (name) => ownNames.has(name),
    isOthers: (name) => otherNames.has(name),
    resembles: (name) => keyOf(name) !== name.toLowerCase() && keys.has(keyOf(name)),
  };
}

const DIRECTED: ReadonlySet<string> = new Set(
  "instead when whenever before after never not must always replace replaces set change changed deprecated only".split(
    " ",
  ),
);

/** What is said of tools of other servers. A name that could be any word is none. */
export function otherToolsFound(words: readonly Word[], around: Surroundings): readonly Finding[] {
  for (const { text, from, to, sentence } of words) {
    if (text.length < 6 || !text.includes("_") || around.isOwn(text) || !around.isOthers(text)) continue;
    const isDirected = words.some((word) => word.sentence === sentence && DIRECTED.has(word.text));
    return [{ kind: "other_tools", severity: isDirected ? "serious" : "mild", from, to }];
  }
  return [];
}

/** The tools that every model is shown here, and how the actions of servers are called. */
const OURS = /^(?:list_actions|describe_action|search_actions|invoke_action|mcp__.*)$/;

/** A tool's name that is taken for another's. The same name is no sign: each server has names of its own. */
export function shadowingFound(name: string, around: Surroundings): readonly Finding[] {
  const severity = around.resembles(name) ? "serious" : OURS.test(keyOf(name)) ? "mild" : undefined;
  return severity === undefined ? [] : [{ kind: "shadowing", severity, from: 0, to: name.length }];
}

function keyOf(name: string): string {
  return folded(name).replace(/[^_\-./]+/gu, unleeted);
}
