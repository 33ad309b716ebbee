import { z } from "zod";
import type { Caller, Dialogue } from "../../core/caller.ts";
import { cloneFrozen } from "../../core/json.ts";
import { toJsonSchema } from "../../core/standard-schema.ts";
import type { TraceCarrier } from "../../core/tracing.ts";
import { findView, resolveToolName } from "../native-tools.ts";
import {
  captureAnswer,
  createToolLookup,
  prepareToolArguments,
  type Surface,
  type SurfaceAnswer,
  type SurfaceBackend,
  type SurfaceTool,
  toSurfaceAnswer,
} from "../surface.ts";
import { describeAction, describeActionTool, type ListQuery, listActions, listActionsTool } from "./browse-actions.ts";
import { type ActionSearch, searchActionsTool, toSearchAnswer, toSearchRequest } from "./search-actions.ts";
import type { Shortcuts } from "./shortcuts.ts";

const invokeActionTool: SurfaceTool = cloneFrozen({
  name: "invoke_action",
  description: "Run an action by its qualified name, with args that fit its input schema.",
  inputSchema: toJsonSchema(z.object({ action_name: z.string(), args: z.record(z.string(), z.unknown()).optional() })),
});

/** The wrappers, sorted: the same few tools whatever stands behind them. */
export const universalTools: readonly SurfaceTool[] = Object.freeze([
  describeActionTool,
  invokeActionTool,
  listActionsTool,
  searchActionsTool,
]);

/** Who can be told and asked while a call runs, and the trace it belongs to. */
type CallExtras = [dialogue?: Dialogue, trace?: TraceCarrier];

const toolsWithoutSearch = Object.freeze(universalTools.filter((tool) => tool !== searchActionsTool));

/** A handful of tools in front of everything the caller may use: constant, but for the shortcuts that were chosen. */
export function createUniversalSurface(counter: SurfaceBackend, caller: Caller, shortcuts?: Shortcuts): Surface {
  const run = async (
    name: string,
    args: unknown,
    signal?: AbortSignal,
    ...told: CallExtras
  ): Promise<SurfaceAnswer> => {
    const [dialogue, trace] = told;
    const outcome = await counter.invoke({ name, args, caller, via: "universal", dialogue, trace }, signal);
    if (outcome.status === "done") shortcuts?.used(outcome.action);
    return toSurfaceAnswer(outcome);
  };
  const { noted, ...looking } = createToolLookup(counter, caller, "universal");
  const look: typeof looking.look = async (...asked) => {
    const answer = await looking.look(...asked);
    await shortcuts?.recordIssued(answer);
    return answer;
  };
  const wrappers = counter.canSearch ? universalTools : toolsWithoutSearch;
  // Without shortcuts nothing here depends on the view.
  const findPresentView = () => (shortcuts === undefined ? undefined : findView(counter, caller));

  return {
    kind: "universal",
    get tools() {
      const view = findPresentView();
      return view === undefined ? wrappers : (shortcuts?.tools(view, wrappers) ?? wrappers);
    },
    async call(tool, args, signal, ...told) {
      switch (tool) {
        case "list_actions":
          return look(listActionsTool, args, async (prepared) => {
            const query: ListQuery = prepared;
            const live = await counter.live.list(caller, query.category ?? []);
            return { data: listActions(counter.viewOf(caller, live), query, counter.searchHint()) };
          });
        case "describe_action":
          return look(describeActionTool, args, async ({ action_name }) => {
            const live = await counter.live.find(String(action_name));
            const view = counter.viewOf(caller, live === undefined ? [] : [live]);
            return { data: describeAction(view, String(action_name)) };
          });
        case "search_actions":
          return look(searchActionsTool, args, async (prepared) => {
            const asked = prepared as unknown as ActionSearch;
            const view = counter.viewOf(caller);
            const found = await counter.search(caller, toSearchRequest(view, asked), signal);
            return toSearchAnswer(view, found, asked.detail);
          });
        case "invoke_action": {
          const understood = captureAnswer(() => prepareToolArguments(invokeActionTool, args));
          if (!understood.ok) return noted(invokeActionTool, args, understood);
          const { action_name, args: inner } = understood.data as { action_name: string; args?: unknown };
          return run(action_name, inner, signal, ...told);
        }
        default: {
          // A model that names an action as if it were a tool means that action.
          const view = findPresentView();
          return run(view === undefined ? tool : resolveToolName(view, tool), args, signal, ...told);
        }
      }
    },
  };
}
