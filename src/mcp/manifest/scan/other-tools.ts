import type { Finding } from "./finding.ts";
import type { Word } from "./words.ts";

/** Which names mean something where a definition is read. */
export interface Surroundings {
  /** Whether the server itself offers a tool of that name. */
  isOwn(name: string): boolean;
  /** Whether another server offers a tool of that name. */
  isOthers(name: string): boolean;
}

const DIRECTED: ReadonlySet<string> = new Set(
  "instead when whenever before after never not must always replace replaces set change changed deprecated only".split(
    " ",
  ),
);

/** What is said of tools of other servers. A name that could be any word is none. */
export function otherToolsFound(words: readonly Word[], around: Surroundings): readonly Finding[] {
  for (const { text, from, to, sentence } of words) {
    if (!isTelling(text) || around.isOwn(text) || !around.isOthers(text)) continue;
    const isDirected = words.some((word) => word.sentence === sentence && DIRECTED.has(word.text));
    return [{ kind: "other_tools", severity: isDirected ? "serious" : "mild", from, to }];
  }
  return [];
}

function isTelling(name: string): boolean {
  return name.length >= 6 && name.includes("_");
}
