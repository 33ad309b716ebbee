import type { Action } from "../core/action.ts";
import { SEPARATOR } from "../core/names.ts";

/**
 * Names that categories had before, or have in systems a model may know from its training, and what they are called
 * here. One more entry is all that a renamed category needs.
 */
export const categoryRedirects: Readonly<Record<string, string>> = {
  "mcp.server": "mcp",
  "mcp.tool": "mcp",
  "mcp.operation": "mcp",
  multi_agent: "agent.peer",
  agent: "agent.peer",
  peer: "agent.peer",
  "memory.entry": "memory_entry",
  "memory.operation": "memory_operation",
  memory: "memory_operation",
  "rag.corpus": "rag_corpus",
  "rag.operation": "rag_operation",
  rag: "rag_operation",
  reyn_source: "qm_source",
  reyn_repo: "qm_source",
  workflow: "skill",
  fs: "file",
  filesystem: "file",
  files: "file",
};

/** What providers' models put before a tool's name when they mean the tool itself. */
const namespacePrefixes: readonly string[] = ["default_api.", "functions.", "tools.", "action:", "qm."];

/** Ways from what was written to what may have been meant. Knows every action; who asks must look through a view. */
export interface SpellingIndex {
  /** The actions that claim this exact text as an alias. */
  findByAlias(text: string): readonly Action[];
  /** The actions made of the same words, whatever separates, orders or repeats them. */
  findByWords(words: readonly string[]): readonly Action[];
  /** The actions that hold the word. */
  findByWord(word: string): readonly Action[];
  readonly words: Iterable<string>;
}

export function createSpellingIndex(actions: readonly Action[]): SpellingIndex {
  const byAlias = new Map<string, Action[]>();
  const byWords = new Map<string, Action[]>();
  const byWord = new Map<string, Action[]>();
  for (const action of actions) {
    for (const alias of action.aliases) put(byAlias, alias, action);
    for (const words of listReadings(action)) put(byWords, toWordKey(words), action);
    for (const word of splitNameWords(action.name)) put(byWord, word, action);
  }
  return {
    findByAlias: (text) => byAlias.get(text) ?? [],
    findByWords: (words) => byWords.get(toWordKey(words)) ?? [],
    findByWord: (word) => byWord.get(word) ?? [],
    words: { [Symbol.iterator]: () => byWord.keys() },
  };
}

/** The words a caller may use for an action: all of it, its entry alone, and the last part of a nested entry. */
function listReadings({ category, entry }: Action): readonly (readonly string[])[] {
  const own = splitNameWords(entry);
  const nested = entry.lastIndexOf(SEPARATOR);
  return [[...splitNameWords(category), ...own], own, ...(nested < 0 ? [] : [splitNameWords(entry.slice(nested))])];
}

/** `mcp__GitHub.createIssue` → mcp, git, hub, create, issue: split where case, digits or punctuation change. */
export function splitNameWords(text: string): readonly string[] {
  return (
    text
      .normalize("NFC")
      .replace(/(\p{Ll}|\p{N})(\p{Lu})/gu, "$1 $2")
      .toLowerCase()
      .match(/[\p{L}\p{N}\p{M}]+/gu) ?? []
  );
}

/** What is left of a name without what a model's provider put before it. */
export function stripNamespace(text: string): string {
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
export function isRespondName(text: string): boolean {
  return toBareName(text) === "respond";
}

/** Whether a bare name belongs to the runtime or to a surface, so that it leads to no action. */
export function isReservedName(text: string): boolean {
  return isRespondName(text) || SURFACE_TOOLS.has(toBareName(text));
}

function toBareName(text: string): string {
  return stripNamespace(text)
    .toLowerCase()
    .replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "");
}

function toWordKey(words: readonly string[]): string {
  return [...new Set(words)].sort().join(" ");
}

function put(map: Map<string, Action[]>, key: string, action: Action): void {
  const held = map.get(key);
  if (held === undefined) map.set(key, [action]);
  else if (held.at(-1) !== action) held.push(action);
}
