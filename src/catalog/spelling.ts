import type { Action } from "../core/action.ts";
import { SEPARATOR } from "../core/names.ts";
import { namespacePrefixes } from "./redirects.ts";

/** Ways from what was written to what may have been meant. Knows every action; who asks must look through a view. */
export interface SpellingIndex {
  /** The actions that claim this exact text as an alias. */
  aliased(text: string): readonly Action[];
  /** The actions made of the same words, whatever separates, orders or repeats them. */
  sameWords(words: readonly string[]): readonly Action[];
  /** The actions that hold the word. */
  holding(word: string): readonly Action[];
  readonly words: Iterable<string>;
}

export function spellingIndex(actions: readonly Action[]): SpellingIndex {
  const byAlias = new Map<string, Action[]>();
  const byWords = new Map<string, Action[]>();
  const byWord = new Map<string, Action[]>();
  for (const action of actions) {
    for (const alias of action.aliases) put(byAlias, alias, action);
    for (const words of readings(action)) put(byWords, wordKey(words), action);
    for (const word of wordsOf(action.name)) put(byWord, word, action);
  }
  return {
    aliased: (text) => byAlias.get(text) ?? [],
    sameWords: (words) => byWords.get(wordKey(words)) ?? [],
    holding: (word) => byWord.get(word) ?? [],
    words: { [Symbol.iterator]: () => byWord.keys() },
  };
}

/** The words a caller may use for an action: all of it, its entry alone, and the last part of a nested entry. */
function readings({ category, entry }: Action): readonly (readonly string[])[] {
  const own = wordsOf(entry);
  const nested = entry.lastIndexOf(SEPARATOR);
  return [[...wordsOf(category), ...own], own, ...(nested < 0 ? [] : [wordsOf(entry.slice(nested))])];
}

/** `mcp__GitHub.createIssue` → mcp, git, hub, create, issue: split where case, digits or punctuation change. */
export function wordsOf(text: string): readonly string[] {
  return (
    text
      .normalize("NFC")
      .replace(/(\p{Ll}|\p{N})(\p{Lu})/gu, "$1 $2")
      .toLowerCase()
      .match(/[\p{L}\p{N}\p{M}]+/gu) ?? []
  );
}

/** What is left of a name without what a model's provider put before it. */
export function withoutNamespace(text: string): string {
  const prefix = namespacePrefixes.find((each) => text.startsWith(each) && text.length > each.length);
  return prefix === undefined ? text : text.slice(prefix.length);
}

const SURFACE_TOOLS: ReadonlySet<string> = new Set([
  "list_actions",
  "describe_action",
  "search_actions",
  "invoke_action",
  "tool_search",
  "tool_get",
]);

/** Whether a name means `respond`, which ends an actor's turn and is no action. */
export function isRespond(text: string): boolean {
  return bareName(text) === "respond";
}

/** Whether a bare name belongs to the runtime or to a surface, so that it leads to no action. */
export function isReservedName(text: string): boolean {
  return isRespond(text) || SURFACE_TOOLS.has(bareName(text));
}

function bareName(text: string): string {
  return withoutNamespace(text)
    .toLowerCase()
    .replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "");
}

function wordKey(words: readonly string[]): string {
  return [...new Set(words)].sort().join(" ");
}

function put(map: Map<string, Action[]>, key: string, action: Action): void {
  const held = map.get(key);
  if (held === undefined) map.set(key, [action]);
  else if (held.at(-1) !== action) held.push(action);
}
