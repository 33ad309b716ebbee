import { type Action, summarizeAction } from "../core/action.ts";
import { toOneLine } from "../core/display-text.ts";
import { clip } from "../core/json.ts";
import { createPatternSet } from "../core/name-patterns.ts";
import { getNamespace } from "../core/names.ts";
import type { CatalogSearchResult } from "./search.ts";

const QUERY_SHOWN = 120;
const SUMMARY_SHOWN = 100;

/** A shortlist for a prompt, made anew each turn: what of all the caller may use fits what is asked of it now. */
export function renderHints(query: string, { hits }: CatalogSearchResult): string {
  if (hits.length === 0) return "";
  const lines = hits.map(
    ({ action }) => `- ${action.name}: ${clip(toOneLine(summarizeAction(action)), SUMMARY_SHOWN)}`,
  );
  return [`## Actions that may fit ${JSON.stringify(clip(toOneLine(query), QUERY_SHOWN))}`, ...lines].join("\n");
}

/** A group of the directory that an installation defines; an action goes to the first group that takes it. */
export interface DirectoryGroup {
  readonly name: string;
  readonly title?: string;
  /** When to look here, in a few words. */
  readonly trigger?: string;
  readonly namespaces?: readonly string[];
  readonly tags?: readonly string[];
  /** Names, or globs. */
  readonly actions?: readonly string[];
}

export interface DirectoryOptions {
  readonly maxGroups: number;
  readonly maxActionsPerGroup: number;
  readonly showCounts: boolean;
  /** Whether what no defined group takes is grouped by world and namespace. */
  readonly defaultGroups: boolean;
  readonly groups: readonly DirectoryGroup[];
}

export interface Directory {
  readonly text: string;
  /** The names of the groups that are shown. */
  readonly groups: readonly string[];
  /** How many actions they hold, shown by name or not. */
  readonly actions: number;
}

interface FilledGroup extends DirectoryGroup {
  readonly held: readonly Action[];
}

/**
 * What a caller may use, grouped for a prompt: defined groups first, then one group a world, then one a namespace, each
 * with some names. What is cut is counted, so that a reader knows that there is more to search for.
 */
export function renderDirectory(actions: readonly Action[], options: DirectoryOptions): Directory {
  const { filled, rest } = fillDefinedGroups(actions, options.groups);
  const groups = [...filled, ...(options.defaultGroups ? [...groupByWorld(rest), ...namespaces(rest)] : [])];
  const shown = groups.slice(0, options.maxGroups);
  const left = groups.slice(options.maxGroups);
  const lines = shown.flatMap((group) => renderGroup(group, options));
  const more =
    left.length === 0
      ? []
      : [
          `- and ${left.length} more ${plural(left.length, "group")}, ${formatActionCount(countHeld(left))}; search finds them`,
        ];
  return {
    text: lines.length === 0 ? "" : ["## Directory of actions", ...lines, ...more].join("\n"),
    groups: shown.map(({ name }) => name),
    actions: countHeld(shown),
  };
}

function renderGroup(
  { name, title, trigger, held }: FilledGroup,
  { maxActionsPerGroup, showCounts }: DirectoryOptions,
): readonly string[] {
  const names = held.slice(0, maxActionsPerGroup).map((action) => action.name);
  const cut = held.length - names.length;
  const head = [name, title, trigger, showCounts || cut > 0 ? formatActionCount(held.length) : undefined]
    .filter((part) => part !== undefined && part !== "")
    .map((part) => toOneLine(String(part)))
    .join(" — ");
  const examples = cut > 0 ? `${names.join(", ")}, +${cut}` : names.join(", ");
  return [`- ${head}`, ...(names.length === 0 ? [] : [`  ${examples}`])];
}

function fillDefinedGroups(actions: readonly Action[], groups: readonly DirectoryGroup[]) {
  const open = groups.map((group) => ({ ...group, takes: createGroupMatcher(group), held: [] as Action[] }));
  const rest: Action[] = [];
  for (const action of actions) (open.find(({ takes }) => takes(action))?.held ?? rest).push(action);
  return { filled: open.filter(({ held }) => held.length > 0), rest };
}

function createGroupMatcher({ namespaces = [], tags = [], actions = [] }: DirectoryGroup): (action: Action) => boolean {
  const patterns = createPatternSet(actions);
  return (action) =>
    namespaces.includes(getNamespace(action.name)) ||
    namespaces.includes(action.category) ||
    tags.some((tag) => action.tags.includes(tag)) ||
    patterns.findMatch(action) !== undefined;
}

function groupByWorld(actions: readonly Action[]): readonly FilledGroup[] {
  return groupActions(actions, ({ world }) => world).map(([name, held]) => ({ name: `world ${name}`, held }));
}

function namespaces(actions: readonly Action[]): readonly FilledGroup[] {
  const plain = groupActions(actions, ({ world, name }) => (world === undefined ? getNamespace(name) : undefined));
  return plain.map(([name, held]) => ({ name, ...describeSharedTags(name, held), held }));
}

/** The tags that all of a group share say what it is about, where its name does not. */
function describeSharedTags(name: string, held: readonly Action[]): { readonly trigger?: string } {
  const shared = (held[0]?.tags ?? []).filter((tag) => tag !== name && held.every(({ tags }) => tags.includes(tag)));
  return shared.length === 0 ? {} : { trigger: shared.slice(0, 3).join(", ") };
}

function groupActions(
  actions: readonly Action[],
  keyOf: (action: Action) => string | undefined,
): readonly [string, readonly Action[]][] {
  const groups = new Map<string, Action[]>();
  for (const action of actions) {
    const key = keyOf(action);
    if (key === undefined) continue;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [action]);
    else group.push(action);
  }
  return [...groups].sort(([a], [b]) => (a < b ? -1 : 1));
}

function countHeld(groups: readonly FilledGroup[]): number {
  return groups.reduce((sum, group) => sum + group.held.length, 0);
}

function formatActionCount(actions: number): string {
  return `${actions} ${plural(actions, "action")}`;
}

function plural(many: number, word: string): string {
  return many === 1 ? word : `${word}s`;
}
