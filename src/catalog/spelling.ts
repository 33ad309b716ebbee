import type { Action } from "../core/action.ts";
import { getOwn } from "../core/json.ts";
import { SEPARATOR } from "../core/names.ts";

/** Former names of categories, and names a model may know from other systems. */
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

/** The present name of an action whose category had another name. Any other name stays as it is. */
export function followRedirect(name: string): string {
  const at = Math.max(0, name.indexOf(SEPARATOR));
  const category = getOwn(categoryRedirects, name.slice(0, at));
  return category === undefined ? name : category + name.slice(at);
}

/** The categories of the product. They are public, so that an empty one is not unknown, whether hidden or unused. */
export const builtInCategories: ReadonlySet<string> = new Set(
  (
    "agent.peer api approval collection exec file infospace mcp memory_entry memory_operation note qm_source rag_corpus " +
    "rag_operation skill tool web"
  ).split(" "),
);

/** Prefixes that some models put before a tool's name. */
const namespacePrefixes: readonly string[] = ["default_api.", "functions.", "tools.", "action:", "qm."];
export type SpellingIndex = ReturnType<typeof createSpellingIndex>;

/** Finds actions by words and aliases. It has every action, so callers must filter by a view. */
export function createSpellingIndex(actions: readonly Action[]) {
  const byAlias = new Map<string, Action[]>();
  const byWords = new Map<string, Action[]>();
  const byWord = new Map<string, Action[]>();
  for (const action of actions) {
    for (const alias of action.aliases) put(byAlias, alias, action);
    for (const words of listReadings(action)) put(byWords, toWordKey(words), action);
    for (const word of splitNameWords(action.name)) put(byWord, word, action);
  }
  return {
    findByAlias: (text: string): readonly Action[] => byAlias.get(text) ?? [],
    findByWords: (words: readonly string[]): readonly Action[] => byWords.get(toWordKey(words)) ?? [],
    findByWord: (word: string): readonly Action[] => byWord.get(word) ?? [],
    words: { [Symbol.iterator]: () => byWord.keys() },
  };
}

/** The words of the full name, of the entry alone, and of the last part of a nested entry. */
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

export function stripNamespace(text: string): string {
  const prefix = namespacePrefixes.find((each) => text.startsWith(each) && text.length > each.length);
  return prefix === undefined ? text : text.slice(prefix.length);
}

const SURFACE_TOOLS: ReadonlySet<string> = new Set(
  "list_actions describe_action search_actions invoke_action tool_search tool_get".split(" "),
);

/** `respond` ends an actor's turn and is no action. */
export const isRespondName = (text: string): boolean => toBareName(text) === "respond";

/** Whether a name belongs to the runtime or to a surface. */
export const isReservedName = (text: string): boolean => isRespondName(text) || SURFACE_TOOLS.has(toBareName(text));

const toBareName = (text: string): string =>
  stripNamespace(text)
    .toLowerCase()
    .replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "");

const toWordKey = (words: readonly string[]): string => [...new Set(words)].sort().join(" ");

function put(map: Map<string, Action[]>, key: string, action: Action): void {
  const known = map.get(key);
  if (known === undefined) map.set(key, [action]);
  else if (known.at(-1) !== action) known.push(action);
}
