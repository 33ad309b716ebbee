import { z } from "zod";
import { resolveAction } from "../../catalog/resolve-action.ts";
import { builtInCategories, categoryRedirects } from "../../catalog/spelling.ts";
import type { View } from "../../catalog/view.ts";
import {
  type Action,
  type ActionOrigin,
  type Effect,
  type Example,
  getActionOrigin,
  type JsonSchema,
  type Readiness,
  summarizeAction,
} from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { cloneFrozen, getOrCreate, getOwn, isRecord, omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { toJsonSchema } from "../../core/standard-schema.ts";
import { joinNotes } from "../pending-note.ts";
import { estimateTokens, readStateWithReason } from "../search-results.ts";
import { formatSignature } from "../signature.ts";
import type { SurfaceTool } from "../surface.ts";

export interface ActionDescription {
  readonly qualified_name: string;
  readonly description: string;
  readonly input_schema: JsonSchema;
  readonly output_schema?: JsonSchema;
  readonly examples: readonly Example[];
  readonly metadata: ActionOrigin & {
    /** The action itself, or the operation that a resource runs. */
    readonly target_tool_name: string;
    readonly category: string;
    /** For a skill: the arguments on one line. */
    readonly schema_hint?: string;
    readonly purity: Effect;
    readonly tags: readonly string[];
    readonly idempotent: boolean;
    readonly approval: "never" | "always" | "conditional";
    /** The caller's world, if the action belongs to it. */
    readonly world?: string;
    readonly state?: Exclude<Readiness, "ready">;
    readonly state_reason?: string;
    /** For a resource. */
    readonly canonical_default?: string;
    /** For a specialist: why only one actor has it. */
    readonly justification?: string;
    /** Why its calls are not routed. */
    readonly bypass_reason?: string;
  };
}

export const describeActionTool: SurfaceTool = cloneFrozen({
  name: "describe_action",
  description: "Full description, input schema and examples of one action.",
  inputSchema: toJsonSchema(z.object({ action_name: z.string() })),
  effect: "read",
});

/** Throws `unknown_action` with suggestions. */
export function describeAction(view: View, asked: string): ActionDescription {
  const { action } = resolveAction(view, asked);
  const { name, description, inputSchema, outputSchema, examples, canonical, category, effect, tags, idempotent } =
    action;
  return {
    qualified_name: name,
    description,
    input_schema: inputSchema,
    ...(outputSchema === undefined ? {} : { output_schema: outputSchema }),
    examples,
    metadata: {
      target_tool_name: canonical?.target ?? name,
      category,
      purity: effect,
      tags,
      idempotent,
      approval: view.approval(action),
      ...getActionOrigin(action),
      ...getOwnWorld(view, action),
      ...(action.type === undefined ? {} : { schema_hint: formatSignature(action) }),
      ...readStateWithReason(action),
      ...omitUndefined({ justification: action.justification, bypass_reason: action.bypassReason }),
      ...(canonical === undefined ? {} : { canonical_default: `runs ${canonical.target}` }),
    },
  };
}

export interface ListQuery {
  readonly category?: readonly string[];
  readonly filter?: string;
  readonly offset?: number;
  readonly limit?: number;
}

/** A listed action. Description and schema only in a list of categories. */
export interface ListedAction {
  readonly qualified_name: string;
  /** The caller's world, if the action belongs to it. */
  readonly world?: string;
  /** Without a category, for a skill: its required arguments, so that a model need not guess them. */
  readonly schema_hint?: string;
  readonly short_description?: string;
  readonly description?: string;
  readonly input_schema?: JsonSchema;
  /** Only for an action that cannot run now, with the reason if it is known. */
  readonly state?: "unavailable";
  readonly state_reason?: string;
}

export interface ActionList {
  readonly items: readonly ListedAction[];
  /** On all pages. */
  readonly total: number;
  /** Absent on the last page. */
  readonly next_offset?: number;
  readonly hint?: string;
  /** Sources, such as MCP servers, whose actions are not known yet. A model reads of them in `hint`. */
  readonly pending?: readonly string[];
}

const PAGE_SIZE = 10;
const PAGE_LIMIT = 50;
const PAGE_CHARACTERS = 16_000;

export const listActionsTool: SurfaceTool = cloneFrozen({
  name: "list_actions",
  description: "Browse available actions. Give category to get descriptions and input schemas.",
  inputSchema: toJsonSchema(
    z.object({
      category: z.array(z.string()).optional(),
      filter: z.string().describe("Substring of name or summary").optional(),
      offset: z.int().min(0).default(0),
      limit: z
        .int()
        .min(1)
        .meta({ description: `At most ${PAGE_LIMIT}`, maximum: undefined })
        .default(PAGE_SIZE),
    }),
  ),
  effect: "read",
});

/** Tokens that an enum of categories may cost. The four wrappers have 332 without it, and at most 400 with it twice. */
const CATEGORY_TOKENS = 34;

/** Lists the categories in the parameter `category`, if they are few. It guides the model; others still get an answer. */
export function addCategoryChoice(tool: SurfaceTool, categories: readonly string[]): SurfaceTool {
  const { properties } = tool.inputSchema;
  const tokens = categories.reduce((sum, name) => sum + estimateTokens(name) + 1, 5);
  if (categories.length === 0 || tokens > CATEGORY_TOKENS || !isRecord(properties)) return tool;
  if (!isRecord(properties.category)) return tool;
  const category = { ...properties.category, items: { type: "string", enum: categories } };
  return cloneFrozen({ ...tool, inputSchema: { ...tool.inputSchema, properties: { ...properties, category } } });
}

/**
 * One page of the visible actions: those of the caller's world first, then the others, both by name. The first page has the
 * hints. Throws `unknown_category` with the valid ones.
 */
export function listActions(
  view: View,
  { category = [], filter = "", ...query }: ListQuery,
  searchHint?: string,
  pendingNote?: string,
): ActionList {
  const offset = Math.max(0, Math.trunc(query.offset ?? 0));
  const limit = Math.max(1, Math.trunc(query.limit ?? PAGE_SIZE));
  const pool = putWorldFirst(view, category.length === 0 ? view.actions() : selectCategories(view, category));
  const wanted = filter.trim().toLowerCase();
  const found = wanted === "" ? pool : filterActions(pool, wanted);
  const total = found.length;
  const page = found.slice(offset, offset + Math.min(limit, PAGE_LIMIT));
  const items = fitPage(page.map((action) => toListedAction(view, action, category.length > 0)));
  const end = offset + items.length;
  const remark =
    createListHint(view, { total, offset, filter: wanted, category }) ?? (offset === 0 ? searchHint : undefined);
  const hint = joinNotes(remark, offset === 0 ? pendingNote : undefined);
  return omitUndefined({ items, total, next_offset: items.length > 0 && end < total ? end : undefined, hint });
}

function selectCategories(view: View, asked: readonly string[]): readonly Action[] {
  requireCategories(view, asked);
  const wanted = new Set(asked);
  return wanted.size === 1
    ? view.inCategory([...wanted][0] ?? "")
    : view.actions().filter((action) => wanted.has(action.category));
}

/** Throws `unknown_category` for categories without a visible action, except built-in ones: those are empty. */
export function requireCategories(view: View, asked: readonly string[]): void {
  const unknown = asked.filter((name) => !builtInCategories.has(name) && view.inCategory(name).length === 0);
  if (unknown.length > 0) throw unknownCategoryError(unknown, view.categories());
}

function unknownCategoryError(unknown: readonly string[], valid: readonly string[]): QmError {
  const moved = unknown.flatMap((name) => {
    const now = getOwn(categoryRedirects, name);
    return now !== undefined && valid.includes(now) ? [[name, now] as const] : [];
  });
  const [first] = moved;
  const renamed = first === undefined ? {} : { renamed: Object.fromEntries(moved) };
  return new QmError("unknown_category", `Unknown category ${unknown.map(quoteName).join(", ")}`, {
    details: { unknown: unknown.map((name) => name.slice(0, 80)), valid, ...renamed },
    hint:
      first === undefined
        ? "Use one of the valid categories, or leave category out."
        : `${first[0]} is now ${first[1]}; use that name.`,
  });
}

const worldFirstLists = new WeakMap<readonly Action[], readonly Action[]>();

/** Cached: a view answers the same list each time. */
const putWorldFirst = ({ world }: View, actions: readonly Action[]): readonly Action[] =>
  world === undefined
    ? actions
    : getOrCreate(worldFirstLists, actions, () => [
        ...actions.filter((action) => world.has(action)),
        ...actions.filter((action) => !world.has(action)),
      ]);

const getOwnWorld = ({ world }: View, action: Action): { readonly world?: string } =>
  world?.has(action) === true ? { world: world.name } : {};

function toListedAction(view: View, action: Action, inFull: boolean): ListedAction {
  const { name, description, type } = action;
  const named = { qualified_name: name, ...getOwnWorld(view, action), ...readUnavailability(action) };
  if (inFull) return { ...named, description, input_schema: action.inputSchema };
  const needsArguments = type !== undefined && hasRequired(action.inputSchema);
  const hint = needsArguments ? { schema_hint: formatSignature(action, 0) } : {};
  return { ...named, ...hint, short_description: summarizeAction(action) };
}

const hasRequired = ({ required }: JsonSchema): boolean => Array.isArray(required) && required.length > 0;

function readUnavailability(action: Action): Pick<ListedAction, "state" | "state_reason"> {
  const { state, ...reason } = readStateWithReason(action);
  return state === "unavailable" ? { state, ...reason } : {};
}

/** Ends a page early when its schemas get too long for a model. */
export function fitPage<Item>(items: readonly Item[]): readonly Item[] {
  let length = 0;
  const over = items.findIndex((item, index) => {
    length += JSON.stringify(item).length;
    return index > 0 && length > PAGE_CHARACTERS;
  });
  return over < 0 ? items : items.slice(0, over);
}

type ListFacts = Required<Pick<ListQuery, "offset" | "filter" | "category">> & { readonly total: number };

function createListHint(view: View, { total, offset, filter, category }: ListFacts): string | undefined {
  if (total === 0 && filter !== "")
    return `Nothing has ${quoteName(filter)} in its name or summary. Try a shorter filter, or browse a category: ${view.categories().join(", ")}.`;
  if (total === 0 && category.length > 0 && view.categories().length > 0)
    return `${category.join(", ")} has no action for you. Others have: ${view.categories().join(", ")}.`;
  if (total === 0) return "No action is available to you.";
  return offset >= total ? `There are only ${total}; start again at offset 0.` : undefined;
}

const haystacks = new WeakMap<readonly Action[], readonly string[]>();

/** Caches the texts: a view answers the same list each time. */
function filterActions(pool: readonly Action[], wanted: string): readonly Action[] {
  let texts = haystacks.get(pool);
  if (texts === undefined) {
    texts = pool.map((action) => `${action.name}\n${summarizeAction(action)}`.toLowerCase());
    haystacks.set(pool, texts);
  }
  return pool.filter((_action, index) => texts[index]?.includes(wanted));
}
