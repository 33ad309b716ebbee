import { type Action, summarizeAction } from "../core/action.ts";
import { toOneLine } from "../core/display-text.ts";
import { clip, getOrCreate } from "../core/json.ts";
import { createPatternSet } from "../core/name-patterns.ts";
import { getNamespace } from "../core/names.ts";
import type { DirectoryGroup, World } from "../core/world.ts";
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

/**
 * The caller's world first, then core: in each the configured groups, then the other actions by namespace. Omitted actions
 * are counted: there is more to find.
 */
export function renderDirectory(actions: readonly Action[], options: DirectoryOptions, world?: World): Directory {
  const own = fillDefinedGroups(actions, world?.groups ?? []);
  const { filled, rest } = fillDefinedGroups(own.rest, options.groups);
  const isOwn = (action: Action) => world?.has(action) === true;
  const groupRest = (held: readonly Action[]) => (options.defaultGroups ? groupByNamespace(held) : []);
  const worldGroups = [...own.filled, ...groupRest(rest.filter(isOwn))];
  const groups = [...worldGroups, ...filled, ...groupRest(rest.filter((action) => !isOwn(action)))];
  const included = groups.slice(0, options.maxGroups);
  const omitted = groups.slice(options.maxGroups);
  const lines = included.flatMap((group, at) => [
    ...(world !== undefined && worldGroups.length > 0 ? renderHeading(world, at, worldGroups.length) : []),
    ...renderGroup(group, options),
  ]);
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

/** The heading above the group at this place, if there is one. `count`: the groups of the world. */
function renderHeading({ name, description }: World, at: number, count: number): readonly string[] {
  const title = description === undefined ? name : `${name}: ${toOneLine(description)}`;
  if (at === 0) return [`### World ${title}`];
  return at === count ? ["### Core"] : [];
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

function groupByNamespace(actions: readonly Action[]): readonly FilledGroup[] {
  const groups = new Map<string, Action[]>();
  for (const action of actions) getOrCreate(groups, getNamespace(action.name), (): Action[] => []).push(action);
  return [...groups]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, held]) => {
      const shared = (held[0]?.tags ?? []).filter(
        (tag) => tag !== name && held.every(({ tags }) => tags.includes(tag)),
      );
      return { name, ...(shared.length === 0 ? {} : { trigger: shared.slice(0, 3).join(", ") }), held };
    });
}

const countHeld = (groups: readonly FilledGroup[]): number => groups.reduce((sum, group) => sum + group.held.length, 0);
const formatCount = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;
