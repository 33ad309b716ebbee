import { type Action, summarizeAction } from "../core/action.ts";
import { toOneLine } from "../core/display-text.ts";
import { clip } from "../core/json.ts";
import { createPatternSet } from "../core/name-patterns.ts";
import { getNamespace } from "../core/names.ts";
import type { CatalogSearchResult } from "./search.ts";

const QUERY_LIMIT = 120;
const SUMMARY_LIMIT = 100;

export function renderHints(query: string, { hits }: CatalogSearchResult): string {
  if (hits.length === 0) return "";
  const title = `## Actions that may fit ${JSON.stringify(clip(toOneLine(query), QUERY_LIMIT))}`;
  const lines = hits.map(
    ({ action }) => `- ${action.name}: ${clip(toOneLine(summarizeAction(action)), SUMMARY_LIMIT)}`,
  );
  return [title, ...lines].join("\n");
}

/** A configured group of the directory. An action goes to the first group that matches it. */
export interface DirectoryGroup {
  readonly name: string;
  readonly title?: string;
  /** When to look here, in a few words. */
  readonly trigger?: string;
  readonly namespaces?: readonly string[];
  readonly tags?: readonly string[];
  readonly actions?: readonly string[];
}

export interface DirectoryOptions {
  readonly maxGroups: number;
  readonly maxActionsPerGroup: number;
  readonly showCounts: boolean;
  /** Whether the other actions are grouped by world and namespace. */
  readonly defaultGroups: boolean;
  readonly groups: readonly DirectoryGroup[];
}

export interface Directory {
  readonly text: string;
  readonly groups: readonly string[];
  /** The number of actions in these groups, whether the text names them or not. */
  readonly actions: number;
}

type FilledGroup = Omit<DirectoryGroup, "actions"> & { readonly held: readonly Action[] };

/** Configured groups first, then by world, then by namespace. Omitted actions are counted: there is more to find. */
export function renderDirectory(actions: readonly Action[], options: DirectoryOptions): Directory {
  const { filled, rest } = fillDefinedGroups(actions, options.groups);
  const groups = options.defaultGroups ? [...filled, ...groupByWorld(rest), ...groupByNamespace(rest)] : filled;
  const included = groups.slice(0, options.maxGroups);
  const omitted = groups.slice(options.maxGroups);
  const lines = included.flatMap((group) => renderGroup(group, options));
  if (omitted.length > 0 && lines.length > 0) {
    lines.push(
      `- and ${formatCount(omitted.length, "more group")}, ${formatCount(countHeld(omitted), "action")}; search finds them`,
    );
  }
  return {
    text: lines.length === 0 ? "" : ["## Directory of actions", ...lines].join("\n"),
    groups: included.map(({ name }) => name),
    actions: countHeld(included),
  };
}

function renderGroup({ name, title, trigger, held }: FilledGroup, options: DirectoryOptions): readonly string[] {
  const names = held.slice(0, options.maxActionsPerGroup).map((action) => action.name);
  const cut = held.length - names.length;
  const head = [name, title, trigger, options.showCounts || cut > 0 ? formatCount(held.length, "action") : undefined]
    .filter((part) => part !== undefined && part !== "")
    .map((part) => toOneLine(String(part)))
    .join(" — ");
  const examples = cut > 0 ? `${names.join(", ")}, +${cut}` : names.join(", ");
  return [`- ${head}`, ...(names.length === 0 ? [] : [`  ${examples}`])];
}

function fillDefinedGroups(actions: readonly Action[], groups: readonly DirectoryGroup[]) {
  const open = groups.map((group) => ({ ...group, matches: createGroupMatcher(group), held: [] as Action[] }));
  const rest: Action[] = [];
  for (const action of actions) (open.find(({ matches }) => matches(action))?.held ?? rest).push(action);
  return { filled: open.filter(({ held }) => held.length > 0) as readonly FilledGroup[], rest };
}

function createGroupMatcher({ namespaces = [], tags = [], actions = [] }: DirectoryGroup): (action: Action) => boolean {
  const patterns = createPatternSet(actions);
  return (action) =>
    namespaces.includes(getNamespace(action.name)) ||
    namespaces.includes(action.category) ||
    tags.some((tag) => action.tags.includes(tag)) ||
    patterns.findMatch(action) !== undefined;
}

const groupByWorld = (actions: readonly Action[]): readonly FilledGroup[] =>
  groupActions(actions, ({ world }) => world).map(([name, held]) => ({ name: `world ${name}`, held }));

function groupByNamespace(actions: readonly Action[]): readonly FilledGroup[] {
  const plain = groupActions(actions, ({ world, name }) => (world === undefined ? getNamespace(name) : undefined));
  return plain.map(([name, held]) => {
    const shared = (held[0]?.tags ?? []).filter((tag) => tag !== name && held.every(({ tags }) => tags.includes(tag)));
    return { name, ...(shared.length === 0 ? {} : { trigger: shared.slice(0, 3).join(", ") }), held };
  });
}

function groupActions(actions: readonly Action[], getKey: (action: Action) => string | undefined) {
  const groups = new Map<string, Action[]>();
  for (const action of actions) {
    const key = getKey(action);
    if (key === undefined) continue;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [action]);
    else group.push(action);
  }
  return [...groups].sort(([a], [b]) => (a < b ? -1 : 1));
}

const countHeld = (groups: readonly FilledGroup[]): number => groups.reduce((sum, group) => sum + group.held.length, 0);
const formatCount = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;
