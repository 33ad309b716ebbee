import { z } from "zod";
import type { Activation } from "../activation/activation.ts";
import type { View } from "../catalog/view.ts";
import type { Action, Effect, Example, JsonSchema, LoadingMode } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { clip, cloneFrozen } from "../core/json.ts";
import { NAME_LIMIT } from "../core/names.ts";
import { toJsonSchema } from "../core/standard-schema.ts";
import { type SearchType, searchTypes } from "../core/surface-choice.ts";
import type { CatalogSearchRequest, CatalogSearchResult } from "../search/search.ts";
import { findView, resolveToolName, toNativeTool, toNativeTools } from "./native-tools.ts";
import {
  type ActionCandidate,
  clampLimit,
  composeHint,
  formatHits,
  formatNotes,
  readState,
  searchLimitShape,
  toSearchFacts,
} from "./search-results.ts";
import { createToolLookup, type Surface, type SurfaceBackend, type SurfaceTool, toSurfaceAnswer } from "./surface.ts";
import { type ActionDescription, describeAction } from "./universal/browse-actions.ts";

interface ToolRequest {
  readonly names: readonly string[];
  readonly include_schemas?: boolean;
  readonly include_examples?: boolean;
}

/** Everything a model may know of one tool. */
interface ToolRecord extends Pick<ActionCandidate, "state"> {
  readonly name: string;
  readonly description: string;
  readonly effect: Effect;
  readonly loading: LoadingMode;
  readonly tags: readonly string[];
  readonly approval: ActionDescription["metadata"]["approval"];
  readonly input_schema?: JsonSchema;
  readonly output_schema?: JsonSchema;
  readonly examples?: readonly Example[];
}

interface ToolRecords {
  readonly tools: readonly ToolRecord[];
  /** How many names were asked for, and how many tools they led to. */
  readonly requested: number;
  readonly returned: number;
  /** The names that lead to nothing you may use. */
  readonly missing?: readonly string[];
}

const toolGetTool: SurfaceTool = cloneFrozen({
  name: "tool_get",
  description: "Full descriptions, input schemas and examples of tools, by name.",
  inputSchema: toJsonSchema(
    z.object({
      names: z.array(z.string()).min(1).max(10),
      include_schemas: z.boolean().default(true),
      include_examples: z.boolean().default(true),
    }),
  ),
  effect: "read",
});

/**
 * What the names lead to, each action once; those that lead nowhere are only named. Throws the `unknown_action` of
 * `describe_action` when all do. Activates nothing: looking at a tool is not using it.
 */
function getTools(view: View, request: ToolRequest, loadingOf: Activation["getLoading"]): ToolRecords {
  const names = request.names.map((name) => resolveToolName(view, name)).filter((name) => name.trim() !== "");
  const tools = new Map<string, ToolRecord>();
  const missing: string[] = [];
  for (const name of names) {
    const record = toToolRecord(view, name, request, loadingOf);
    if (record === undefined) missing.push(clip(name, NAME_LIMIT));
    else tools.set(record.name, record);
  }
  if (tools.size === 0) describeAction(view, names[0] ?? "");
  return {
    tools: [...tools.values()],
    requested: request.names.length,
    returned: tools.size,
    ...(missing.length === 0 ? {} : { missing }),
  };
}

function toToolRecord(
  view: View,
  name: string,
  { include_schemas = true, include_examples = true }: ToolRequest,
  loadingOf: Activation["getLoading"],
): ToolRecord | undefined {
  const described = findDescription(view, name);
  const action = described === undefined ? undefined : view.get(described.qualified_name);
  if (described === undefined || action === undefined) return undefined;
  const { input_schema, output_schema, examples, metadata } = described;
  return {
    name: action.name,
    description: action.description,
    effect: action.effect,
    loading: loadingOf(action),
    tags: action.tags,
    approval: metadata.approval,
    ...readState(action),
    ...(include_schemas ? { input_schema } : {}),
    ...(include_schemas && output_schema !== undefined ? { output_schema } : {}),
    ...(include_examples ? { examples } : {}),
  };
}

function findDescription(view: View, name: string): ActionDescription | undefined {
  try {
    return describeAction(view, name);
  } catch (thrown) {
    if (thrown instanceof QmError && thrown.code === "unknown_action") return undefined;
    throw thrown;
  }
}

interface ToolSearch {
  readonly query: string;
  readonly search_type?: SearchType;
  readonly limit?: number;
  readonly include_always_loaded?: boolean;
}

/** A tool that was found. It is called by its name, shown or not. */
interface FoundTool extends Omit<ActionCandidate, "summary"> {
  readonly description: string;
  readonly loading: LoadingMode;
}

export interface FoundTools {
  readonly tools: readonly FoundTool[];
  readonly query: string;
  /** How it was searched. */
  readonly search_type: SearchType;
  /** The words that nothing available has. */
  readonly unmatched?: readonly string[];
  readonly hint?: string;
}

const NAMES_LISTED = 3;

const toolSearchTool: SurfaceTool = cloneFrozen({
  name: "tool_search",
  description: "Find tools by what they do, best first. Any tool found can be called by its name.",
  inputSchema: toJsonSchema(
    z.object({
      query: z.string(),
      search_type: z.enum(searchTypes).optional(),
      limit: searchLimitShape,
      include_always_loaded: z.boolean().describe("Also tools you are shown from the start").default(false),
    }),
  ),
  effect: "read",
});

type LoadingLookup = Activation["getLoading"];

/** The search that a model asks for. */
function toToolSearchRequest(
  { query, search_type, limit, include_always_loaded = false }: ToolSearch,
  loadingOf: LoadingLookup,
): CatalogSearchRequest {
  return {
    query,
    ...(limit === undefined ? {} : { limit: clampLimit(limit) }),
    ...(search_type === undefined ? {} : { type: search_type }),
    ...(include_always_loaded ? {} : { accepts: (action: Action) => loadingOf(action) === "deferred" }),
  };
}

/** The answer to a search, whole and as the model reads it. */
function toFoundTools(
  query: string,
  found: CatalogSearchResult,
  loadingOf: LoadingLookup,
): { readonly data: FoundTools; readonly text: string } {
  const { hits } = found;
  const hint = composeHint(found, () => suggestNextStep(found));
  const { items, text } = formatHits(hits, formatNotes("No tool", found, hint));
  const tools = items.map(({ summary, ...rest }, index): FoundTool => {
    const hit = hits[index];
    return { ...rest, description: summary, loading: hit === undefined ? "deferred" : loadingOf(hit.action) };
  });
  return { data: { tools, query, ...toSearchFacts(found, hint) }, text };
}

function suggestNextStep({ elsewhere = [] }: CatalogSearchResult): string {
  const shown = elsewhere
    .slice(0, NAMES_LISTED)
    .map(({ action }) => action.name)
    .join(", ");
  return shown === "" ? "Nothing fits. Say it in other words." : `Nothing more fits; you have ${shown} from the start.`;
}

/** There whatever the policy says: they tell only of what the caller may see. */
const discoveryTools: readonly SurfaceTool[] = Object.freeze([toolGetTool, toolSearchTool]);

/**
 * Two tools to find the others with, what is loaded from the start, and behind them what was called, in the order in
 * which it was first called: what is new comes last, so that the prompt before it stays as it was.
 */
export function createDeferredSurface(counter: SurfaceBackend, caller: Caller, activation: Activation): Surface {
  const { look } = createToolLookup(counter, caller, "deferred");
  const { getLoading: loadingOf } = activation;
  const tools = createToolList(activation);

  return {
    kind: "deferred",
    get tools() {
      const view = findView(counter, caller);
      return view === undefined ? discoveryTools : tools(view);
    },
    get deferred() {
      const view = findView(counter, caller);
      if (view === undefined) return [];
      return toNativeTools(
        view,
        view.actions().filter((action) => loadingOf(action) === "deferred"),
      );
    },
    async call(tool, args, signal, dialogue, trace) {
      switch (tool) {
        case "tool_search":
          return look(toolSearchTool, args, async (prepared) => {
            const search = prepared as unknown as ToolSearch;
            const found = await counter.search(caller, toToolSearchRequest(search, loadingOf), signal);
            return toFoundTools(search.query, found, loadingOf);
          });
        case "tool_get":
          return look(toolGetTool, args, async (prepared) => {
            const request = prepared as unknown as ToolRequest;
            const data = getTools(counter.viewOf(caller), request, loadingOf);
            const returned = data.tools.map(({ name }) => name);
            counter.recordFetchedActions(caller, { requested: request.names, returned });
            await activation.offer(returned);
            return { data };
          });
        default: {
          const view = findView(counter, caller);
          const name = view === undefined ? tool : resolveToolName(view, tool);
          const outcome = await counter.invoke(
            { name, args, caller, via: "deferred", activation, dialogue, trace },
            signal,
          );
          return toSurfaceAnswer(outcome);
        }
      }
    },
  };
}

/** Made anew when the view or what is activated has changed, and only then. */
function createToolList({ getLoading: loadingOf, names }: Activation): (view: View) => readonly SurfaceTool[] {
  let made: { readonly from: readonly unknown[]; readonly tools: readonly SurfaceTool[] } | undefined;
  return (view) => {
    const activated = names();
    if (made?.from[0] === view && made.from[1] === activated) return made.tools;
    const always = view.actions().filter((action) => loadingOf(action) === "always");
    const called = activated.flatMap((name) => {
      const action = view.get(name);
      return action === undefined || loadingOf(action) === "always" ? [] : [toNativeTool(view, action)];
    });
    const tools = Object.freeze([...discoveryTools, ...toNativeTools(view, always), ...called]);
    made = { from: [view, activated], tools };
    return tools;
  };
}
