import type { TextFinding } from "./finding.ts";
import { foldForScan, replaceLeetDigits, type ScannedWord } from "./text-words.ts";

/** Which names mean something where a definition is read. */
export interface OfferedNames {
  /** Whether the server itself offers a tool of that name. */
  isOwn(name: string): boolean;
  /** Whether another server offers a tool of that name. */
  isOthers(name: string): boolean;
  /** Whether it would be read as the name of another server's tool, and is written with other characters. */
  resembles(name: string): boolean;
}

export function createOfferedNames(own: Iterable<string>, others: Iterable<string>): OfferedNames {
  const ownNames = new Set(own);
  const otherNames = new Set(others);
  const keys = new Set(Array.from(otherNames, toComparableName));
  return {
    isOwn: (name) => ownNames.has(name),
    isOthers: (name) => otherNames.has(name),
    resembles: (name) => toComparableName(name) !== name.toLowerCase() && keys.has(toComparableName(name)),
  };
}

const DIRECTED: ReadonlySet<string> = new Set(
  "instead when whenever before after never not must always replace replaces set change changed deprecated only".split(
    " ",
  ),
);

/** What is said of tools of other servers. A name that could be any word is none. */
export function findOtherTools(words: readonly ScannedWord[], around: OfferedNames): readonly TextFinding[] {
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
export function findShadowing(name: string, around: OfferedNames): readonly TextFinding[] {
  const severity = around.resembles(name) ? "serious" : OURS.test(toComparableName(name)) ? "mild" : undefined;
  return severity === undefined ? [] : [{ kind: "shadowing", severity, from: 0, to: name.length }];
}

function toComparableName(name: string): string {
  return foldForScan(name).replace(/[^_\-./]+/gu, replaceLeetDigits);
}
