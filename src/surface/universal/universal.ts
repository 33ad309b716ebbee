import { z } from "zod";
import type { Caller } from "../../core/caller.ts";
import type { Dialogue } from "../../core/dialogue.ts";
import { frozenCopy } from "../../core/json.ts";
import { toJsonSchema } from "../../core/standard-schema.ts";
import type { TraceCarrier } from "../../core/tracing.ts";
import { lookingAround, preparedFor } from "../look.ts";
import { nameBehind, viewOrNone } from "../native-tools.ts";
import { type Answer, answering, type Counter, outcomeAnswer, type Surface, type SurfaceTool } from "../surface.ts";
import { describeAction, describeActionTool } from "./describe-action.ts";
import { type ListQuery, listActions, listActionsTool } from "./list-actions.ts";
import { type ActionSearch, searchActionsTool, searchAnswer, searchOf } from "./search-actions.ts";
import type { Shortcuts } from "./shortcuts.ts";

const invokeActionTool: SurfaceTool = frozenCopy({
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
type Told = [dialogue?: Dialogue, trace?: TraceCarrier];

const toolsWithoutSearch = Object.freeze(universalTools.filter((tool) => tool !== searchActionsTool));

/** A handful of tools in front of everything the caller may use: constant, but for the shortcuts that were chosen. */
export function universalSurface(counter: Counter, caller: Caller, shortcuts?: Shortcuts): Surface {
  const run = async (name: string, args: unknown, signal?: AbortSignal, ...told: Told): Promise<Answer> => {
    const [dialogue, trace] = told;
    const outcome = await counter.invoke({ name, args, caller, via: "universal", dialogue, trace }, signal);
    if (outcome.status === "done") shortcuts?.used(outcome.action);
    return outcomeAnswer(outcome);
  };
  const { noted, ...looking } = lookingAround(counter, caller, "universal");
  const look: typeof looking.look = async (...asked) => {
    const answer = await looking.look(...asked);
    await shortcuts?.told(answer);
    return answer;
  };
  const wrappers = counter.canSearch ? universalTools : toolsWithoutSearch;
  // Without shortcuts nothing here depends on the view.
  const present = () => (shortcuts === undefined ? undefined : viewOrNone(counter, caller));

  return {
    kind: "universal",
    get tools() {
      const view = present();
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
            const found = await counter.search(caller, searchOf(view, asked), signal);
            return searchAnswer(view, found, asked.detail);
          });
        case "invoke_action": {
          const understood = answering(() => preparedFor(invokeActionTool, args));
          if (!understood.ok) return noted(invokeActionTool, args, understood);
          const { action_name, args: inner } = understood.data as { action_name: string; args?: unknown };
          return run(action_name, inner, signal, ...told);
        }
        default: {
          // A model that names an action as if it were a tool means that action.
          const view = present();
          return run(view === undefined ? tool : nameBehind(view, tool), args, signal, ...told);
        }
      }
    },
  };
}
