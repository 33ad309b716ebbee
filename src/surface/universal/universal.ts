import { z } from "zod";
import type { Caller } from "../../core/caller.ts";
import { toJsonSchema } from "../../core/standard-schema.ts";
import { prepareArgs } from "../../invoke/arguments.ts";
import { type Answer, answering, type Counter, outcomeAnswer, type Surface, type SurfaceTool } from "../surface.ts";
import { describeAction, describeActionTool } from "./describe-action.ts";
import { listActions, listActionsTool } from "./list-actions.ts";

const invokeActionTool: SurfaceTool = {
  name: "invoke_action",
  description: "Run an action by its qualified name, with args that fit its input schema.",
  inputSchema: toJsonSchema(z.object({ action_name: z.string(), args: z.record(z.string(), z.unknown()).optional() })),
};

/** The wrappers, sorted: the same few tools whatever stands behind them. */
export const universalTools: readonly SurfaceTool[] = [describeActionTool, invokeActionTool, listActionsTool];

/** A constant handful of tools in front of everything the caller may use. */
export function universalSurface(counter: Counter, caller: Caller): Surface {
  const run = (name: string, args: unknown, signal?: AbortSignal): Promise<Answer> =>
    counter.invoke({ name, args, caller, via: "universal" }, signal).then(outcomeAnswer);

  return {
    kind: "universal",
    tools: universalTools,
    async call(tool, args, signal) {
      switch (tool) {
        case "list_actions":
          return answering(() => listActions(counter.viewOf(caller), prepare(listActionsTool, args)));
        case "describe_action":
          return answering(() =>
            describeAction(counter.viewOf(caller), String(prepare(describeActionTool, args).action_name)),
          );
        case "invoke_action": {
          const prepared = answering(() => prepare(invokeActionTool, args));
          if (!prepared.ok) return prepared;
          const { action_name, args: inner } = prepared.data as { action_name: string; args?: unknown };
          return run(action_name, inner, signal);
        }
        default:
          // A model that names an action as if it were a tool means that action.
          return run(tool, args, signal);
      }
    },
  };
}

function prepare(tool: SurfaceTool, args: unknown) {
  return prepareArgs({ name: tool.name, inputSchema: tool.inputSchema, examples: [] }, args).args;
}
