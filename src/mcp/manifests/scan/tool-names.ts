import type { TextFinding } from "./finding.ts";
import { foldForScan, replaceLeetDigits, type ScannedWord } from "./text-words.ts";

export type OfferedNames = ReturnType<typeof createOfferedNames>;

export function createOfferedNames(own: Iterable<string>, others: Iterable<string>) {
  const ownNames = new Set(own);
  const otherNames = new Set(others);
  const keys = new Set(Array.from(otherNames, toComparableName));
  return {
    isOwn: (name: string) => ownNames.has(name),
    isOthers: (name: string) => otherNames.has(name),
    /** Whether it reads like the name of another server's tool but has other characters. */
    resembles: (name: string) => toComparableName(name) !== name.toLowerCase() && keys.has(toComparableName(name)),
  };
}

const DIRECTING =
  /^(?:instead|when|whenever|before|after|never|not|must|always|replaces?|set|changed?|deprecated|only)$/;

/** Finds mentions of other servers' tools. Short names without an underscore may be ordinary words and do not count. */
export function findOtherTools(words: readonly ScannedWord[], around: OfferedNames): readonly TextFinding[] {
  for (const { text, from, to, sentence } of words) {
    if (text.length < 6 || !text.includes("_") || around.isOwn(text) || !around.isOthers(text)) continue;
    const isDirected = words.some((word) => word.sentence === sentence && DIRECTING.test(word.text));
    return [{ kind: "other_tools", severity: isDirected ? "serious" : "mild", from, to }];
  }
  return [];
}

/** The tools of the gateway itself, and the action names of servers. */
const OURS = /^(?:list_actions|describe_action|search_actions|invoke_action|mcp__.*)$/;

/** Finds a name that imitates another tool's. An equal name is fine: each server has its own name space. */
export function findShadowing(name: string, around: OfferedNames): readonly TextFinding[] {
  const severity = around.resembles(name) ? "serious" : OURS.test(toComparableName(name)) ? "mild" : undefined;
  return severity === undefined ? [] : [{ kind: "shadowing", severity, from: 0, to: name.length }];
}

const toComparableName = (name: string): string => foldForScan(name).replace(/[^_\-./]+/gu, replaceLeetDigits);
