import { z } from "zod";
import type { Activation } from "../activation/activation.ts";
import { resolveAction } from "../catalog/resolve-action.ts";
import type { View } from "../catalog/view.ts";
import type { Action, LoadingMode } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { clip, cloneFrozen, omitUndefined } from "../core/json.ts";
import { NAME_LIMIT } from "../core/names.ts";
import { toJsonSchema } from "../core/standard-schema.ts";
import { type SearchType, searchTypes } from "../core/surface-choice.ts";
import type { CatalogSearchRequest, CatalogSearchResult } from "../search/search.ts";
import { findView, resolveToolName, toNativeTool, toNativeTools } from "./native-tools.ts";
import { formatPendingNote, joinNotes } from "./pending-note.ts";
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
import { createLookUp, type Surface, type SurfaceBackend, type SurfaceTool, toSurfaceAnswer } from "./surface.ts";

type LoadingLookup = Activation["getLoading"];

const yes = z.boolean().default(true);
const toolGetShape = z.object({
  names: z.array(z.string()).min(1).max(10),
  include_schemas: yes,
  include_examples: yes,
});

type ToolRequest = z.infer<typeof toolGetShape>;

const toolGetTool: SurfaceTool = cloneFrozen({
  name: "tool_get",
  description: "Full descriptions, input schemas and examples of tools, by name.",
  inputSchema: toJsonSchema(toolGetShape),
  effect: "read",
});

/** Describes each action once, without activating it. Throws `unknown_action` if no name leads to an action. */
function getTools(view: View, request: ToolRequest, getLoading: LoadingLookup) {
  const names = request.names.map((name) => resolveToolName(view, name)).filter((name) => name.trim() !== "");
  const tools = new Map<string, NonNullable<ReturnType<typeof toToolRecord>>>();
  const missing: string[] = [];
  for (const name of names) {
    const record = toToolRecord(view, name, request, getLoading);
    if (record === undefined) missing.push(clip(name, NAME_LIMIT));
    else tools.set(record.name, record);
  }
  if (tools.size === 0) resolveAction(view, names[0] ?? "");
  const counts = { requested: request.names.length, returned: tools.size };
  return { tools: [...tools.values()], ...counts, ...(missing.length === 0 ? {} : { missing }) };
}

function toToolRecord(
  view: View,
  asked: string,
  { include_schemas, include_examples }: ToolRequest,
  getLoading: LoadingLookup,
) {
  const action = findAction(view, asked);
  if (action === undefined) return undefined;
  const { name, description, effect, tags, inputSchema, outputSchema, examples } = action;
  return {
    name,
    description,
    effect,
    loading: getLoading(action),
    tags,
    approval: view.approval(action),
    ...readState(action),
    ...(include_schemas ? { input_schema: inputSchema } : {}),
    ...(include_schemas && outputSchema !== undefined ? { output_schema: outputSchema } : {}),
    ...(include_examples ? { examples } : {}),
  };
}

function findAction(view: View, name: string): Action | undefined {
  try {
    return resolveAction(view, name).action;
  } catch (thrown) {
    if (thrown instanceof QmError && thrown.code === "unknown_action") return undefined;
    throw thrown;
  }
}

const toolSearchShape = z.object({
  query: z.string(),
  search_type: z.enum(searchTypes).optional(),
  limit: searchLimitShape,
  include_always_loaded: z.boolean().describe("Also tools you are shown from the start").default(false),
});

const toolSearchTool: SurfaceTool = cloneFrozen({
  name: "tool_search",
  description: "Find tools by what they do, best first. Any tool found can be called by its name.",
  inputSchema: toJsonSchema(toolSearchShape),
  effect: "read",
});

/** A found tool. It can be called by its name even if it is not listed. */
interface FoundTool extends Omit<ActionCandidate, "summary"> {
  readonly description: string;
  readonly loading: LoadingMode;
}

export interface FoundTools {
  readonly tools: readonly FoundTool[];
  readonly query: string;
  readonly search_type: SearchType;
  readonly unmatched?: readonly string[];
  readonly hint?: string;
}

const NAMES_LISTED = 3;

function toToolSearchRequest(
  { query, search_type: type, limit, include_always_loaded }: z.infer<typeof toolSearchShape>,
  getLoading: LoadingLookup,
): CatalogSearchRequest {
  const accepts = include_always_loaded ? undefined : (action: Action) => getLoading(action) === "deferred";
  return omitUndefined({ query, limit: clampLimit(limit), type, accepts });
}

function toFoundTools(
  query: string,
  found: CatalogSearchResult,
  getLoading: LoadingLookup,
  pendingNote: string | undefined,
) {
  const { hits } = found;
  const remark = composeHint(found, () => suggestNextStep(found));
  const hint = joinNotes(remark, pendingNote);
  const { items, text } = formatHits(hits, formatNotes("No tool", found, remark, pendingNote));
  const tools = items.map(({ summary, ...rest }, index): FoundTool => {
    const hit = hits[index];
    return { ...rest, description: summary, loading: hit === undefined ? "deferred" : getLoading(hit.action) };
  });
  return { data: { tools, query, ...toSearchFacts(found, hint) }, text };
}

function suggestNextStep({ elsewhere = [] }: CatalogSearchResult): string {
  const names = elsewhere.slice(0, NAMES_LISTED).map(({ action }) => action.name);
  if (names.length === 0) return "Nothing fits. Say it in other words.";
  return `Nothing more fits; you have ${names.join(", ")} from the start.`;
}

/** Always listed: they reveal only what the caller may see. */
const discoveryTools: readonly SurfaceTool[] = Object.freeze([toolGetTool, toolSearchTool]);

/** Discovery tools, always loaded actions, then activated ones: new tools come last to keep the prompt prefix. */
export function createDeferredSurface(backend: SurfaceBackend, caller: Caller, activation: Activation): Surface {
  const lookUp = createLookUp(backend, caller, "deferred");
  const { getLoading } = activation;
  const tools = createToolList(activation);
  return {
    kind: "deferred",
    learnsFromCalls: true,
    get tools() {
      const view = findView(backend, caller);
      return view === undefined ? discoveryTools : tools(view);
    },
    get deferred() {
      const view = findView(backend, caller);
      if (view === undefined) return [];
      const actions = view.actions().filter((action) => getLoading(action) === "deferred");
      return toNativeTools(view, actions);
    },
    async call(tool, args, signal, options) {
      switch (tool) {
        case "tool_search":
          return lookUp(toolSearchTool, args, async (prepared) => {
            const search = prepared as z.infer<typeof toolSearchShape>;
            const found = await backend.search(caller, toToolSearchRequest(search, getLoading), signal);
            return toFoundTools(search.query, found, getLoading, formatPendingNote(backend.getView(caller)));
          });
        case "tool_get":
          return lookUp(toolGetTool, args, async (prepared) => {
            const request = prepared as ToolRequest;
            const data = getTools(backend.getView(caller), request, getLoading);
            const returned = data.tools.map(({ name }) => name);
            backend.recordFetchedActions(caller, { requested: request.names, returned });
            await activation.offer(returned);
            return { data };
          });
        default: {
          const view = findView(backend, caller);
          const name = view === undefined ? tool : resolveToolName(view, tool);
          const call = { name, args, caller, via: "deferred", activation, ...options };
          return toSurfaceAnswer(await backend.invoke(call, signal));
        }
      }
    },
  };
}

/** Answers the same array until the view or the activated names change. */
function createToolList({ getLoading, names }: Activation): (view: View) => readonly SurfaceTool[] {
  let cached: { readonly view: View; readonly activated: unknown; readonly tools: readonly SurfaceTool[] } | undefined;
  return (view) => {
    const activated = names();
    if (cached?.view === view && cached.activated === activated) return cached.tools;
    const always = view.actions().filter((action) => getLoading(action) === "always");
    const called = activated.flatMap((name) => {
      const action = view.get(name);
      return action === undefined || getLoading(action) === "always" ? [] : [toNativeTool(view, action)];
    });
    const tools = Object.freeze([...discoveryTools, ...toNativeTools(view, always), ...called]);
    cached = { view, activated, tools };
    return tools;
  };
}
