import type { Activation } from "../../activation/activation.ts";
import type { View } from "../../catalog/view.ts";
import type { Caller } from "../../core/caller.ts";
import { lookingAround } from "../look.ts";
import { nameBehind, nativeTool, nativeTools, viewOrNone } from "../native-tools.ts";
import { type Counter, outcomeAnswer, type Surface, type SurfaceTool } from "../surface.ts";
import { type ToolRequest, toolGet, toolGetTool } from "./tool-get.ts";
import { foundTools, searchFor, type ToolSearch, toolSearchTool } from "./tool-search.ts";

/** There whatever the policy says: they tell only of what the caller may see. */
export const discoveryTools: readonly SurfaceTool[] = Object.freeze([toolGetTool, toolSearchTool]);

/**
 * Two tools to find the others with, what is loaded from the start, and behind them what was called, in the order in
 * which it was first called: what is new comes last, so that the prompt before it stays as it was.
 */
export function deferredSurface(counter: Counter, caller: Caller, activation: Activation): Surface {
  const { look } = lookingAround(counter, caller, "deferred");
  const { loadingOf } = activation;
  const tools = shownTools(activation);

  return {
    kind: "deferred",
    get tools() {
      const view = viewOrNone(counter, caller);
      return view === undefined ? discoveryTools : tools(view);
    },
    get deferred() {
      const view = viewOrNone(counter, caller);
      if (view === undefined) return [];
      return nativeTools(
        view,
        view.actions().filter((action) => loadingOf(action) === "deferred"),
      );
    },
    async call(tool, args, signal, dialogue, trace) {
      switch (tool) {
        case "tool_search":
          return look(toolSearchTool, args, async (prepared) => {
            const search = prepared as unknown as ToolSearch;
            const found = await counter.search(caller, searchFor(search, loadingOf), signal);
            return foundTools(search.query, found, loadingOf);
          });
        case "tool_get":
          return look(toolGetTool, args, async (prepared) => {
            const request = prepared as unknown as ToolRequest;
            const data = toolGet(counter.viewOf(caller), request, loadingOf);
            const returned = data.tools.map(({ name }) => name);
            counter.fetched(caller, { requested: request.names, returned });
            await activation.offer(returned);
            return { data };
          });
        default: {
          const view = viewOrNone(counter, caller);
          const name = view === undefined ? tool : nameBehind(view, tool);
          const outcome = await counter.invoke(
            { name, args, caller, via: "deferred", activation, dialogue, trace },
            signal,
          );
          return outcomeAnswer(outcome);
        }
      }
    },
  };
}

/** Made anew when the view or what is activated has changed, and only then. */
function shownTools({ loadingOf, names }: Activation): (view: View) => readonly SurfaceTool[] {
  let made: { readonly from: readonly unknown[]; readonly tools: readonly SurfaceTool[] } | undefined;
  return (view) => {
    const activated = names();
    if (made?.from[0] === view && made.from[1] === activated) return made.tools;
    const always = view.actions().filter((action) => loadingOf(action) === "always");
    const called = activated.flatMap((name) => {
      const action = view.get(name);
      return action === undefined || loadingOf(action) === "always" ? [] : [nativeTool(view, action)];
    });
    const tools = Object.freeze([...discoveryTools, ...nativeTools(view, always), ...called]);
    made = { from: [view, activated], tools };
    return tools;
  };
}
