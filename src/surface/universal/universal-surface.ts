import { z } from "zod";
import type { LiveCategory } from "../../catalog/snapshot.ts";
import type { Caller } from "../../core/caller.ts";
import { cloneFrozen, type JsonObject } from "../../core/json.ts";
import { toJsonSchema } from "../../core/standard-schema.ts";
import { findView, resolveToolName } from "../native-tools.ts";
import { formatPendingNote } from "../pending-note.ts";
import {
  createLookUp,
  type LookUp,
  prepareToolArguments,
  type Surface,
  type SurfaceAnswer,
  type SurfaceBackend,
  type SurfaceTool,
  toSurfaceAnswer,
} from "../surface.ts";
import {
  addCategoryChoice,
  describeAction,
  describeActionTool,
  type ListQuery,
  listActions,
  listActionsTool,
} from "./browse-actions.ts";
import { type ActionSearch, searchActionsTool, toSearchAnswer, toSearchRequest } from "./search-actions.ts";
import type { Shortcuts } from "./shortcuts.ts";

const invokeActionTool: SurfaceTool = cloneFrozen({
  name: "invoke_action",
  description: "Run an action by its qualified name, with args that fit its input schema.",
  inputSchema: toJsonSchema(z.object({ action_name: z.string(), args: z.record(z.string(), z.unknown()).optional() })),
});

/** The same few tools, sorted, for any catalog. */
export const universalTools = Object.freeze([describeActionTool, invokeActionTool, listActionsTool, searchActionsTool]);

const toolsWithoutSearch = Object.freeze(universalTools.filter((tool) => tool !== searchActionsTool));

/** A few tools in front of everything the caller may use, constant except for categories and chosen shortcuts. */
export function createUniversalSurface(backend: SurfaceBackend, caller: Caller, shortcuts?: Shortcuts): Surface {
  const lookUp = createLookUp(backend, caller, "universal");
  const browse: LookUp = async (...call) => {
    const answer = await lookUp(...call);
    await shortcuts?.recordIssued(answer);
    return answer;
  };
  const getWrappers = createWrapperList(backend.canSearch ? universalTools : toolsWithoutSearch);
  return {
    kind: "universal",
    learnsFromCalls: shortcuts !== undefined,
    get tools() {
      const view = findView(backend, caller);
      const wrappers =
        view === undefined ? getWrappers([]) : getWrappers(view.categories(), backend.live.categories(caller));
      return view === undefined ? wrappers : (shortcuts?.tools(view, wrappers) ?? wrappers);
    },
    async call(tool, args, signal, options) {
      const run = async (name: string, args: unknown): Promise<SurfaceAnswer> => {
        const outcome = await backend.invoke({ name, args, caller, via: "universal", ...options }, signal);
        if (outcome.status === "done") shortcuts?.recordUse(outcome.action);
        return toSurfaceAnswer(outcome);
      };
      switch (tool) {
        case "list_actions":
          return browse(listActionsTool, args, async (query: ListQuery) => {
            const live = await backend.live.list(caller, query.category ?? []);
            const view = backend.getView(caller, live);
            const note = formatPendingNote(view, query.category);
            return { data: listActions(view, query, await backend.searchHint(), note) };
          });
        case "describe_action":
          return browse(describeActionTool, args, async ({ action_name }) => {
            const live = await backend.live.find(String(action_name), caller);
            const view = backend.getView(caller, live === undefined ? [] : [live]);
            return { data: describeAction(view, String(action_name)) };
          });
        case "search_actions":
          return browse(searchActionsTool, args, async (prepared) => {
            const search = prepared as unknown as ActionSearch;
            const view = backend.getView(caller);
            const found = await backend.search(caller, toSearchRequest(view, search), signal);
            const words = backend.getHintWords("universal", caller);
            return toSearchAnswer(view, found, search.detail, words, formatPendingNote(view, search.category));
          });
        case "invoke_action": {
          let prepared: JsonObject;
          try {
            prepared = prepareToolArguments(invokeActionTool, args);
          } catch (thrown) {
            return lookUp(invokeActionTool, args, () => Promise.reject(thrown));
          }
          return run(String(prepared.action_name), prepared.args);
        }
        default: {
          // A model that calls an action as a tool means that action.
          const view = shortcuts === undefined ? undefined : findView(backend, caller);
          return run(view === undefined ? tool : resolveToolName(view, tool), args);
        }
      }
    },
  };
}

/** Answers the same array until the categories change. Only `list_actions` has the live ones: search does not find them. */
function createWrapperList(tools: readonly SurfaceTool[]) {
  let cached = { key: " ", tools };
  return (categories: readonly string[], live: readonly LiveCategory[] = []): readonly SurfaceTool[] => {
    const all = [...categories, ...live.map(({ name }) => name)].sort();
    const key = `${categories} ${all}`;
    if (cached.key === key) return cached.tools;
    const withChoice = tools.map((tool) => addCategoryChoice(tool, tool === listActionsTool ? all : categories));
    cached = { key, tools: Object.freeze(withChoice) };
    return cached.tools;
  };
}
