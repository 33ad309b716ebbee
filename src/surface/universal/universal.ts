import { z } from "zod";
import type { Caller } from "../../core/caller.ts";
import type { Problem } from "../../core/errors.ts";
import { frozenCopy, type JsonObject } from "../../core/json.ts";
import { toJsonSchema } from "../../core/standard-schema.ts";
import { prepareArgs } from "../../invoke/arguments.ts";
import { type Answer, answering, type Counter, outcomeAnswer, type Surface, type SurfaceTool } from "../surface.ts";
import { describeAction, describeActionTool } from "./describe-action.ts";
import { listActions, listActionsTool } from "./list-actions.ts";

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
]);

/** A constant handful of tools in front of everything the caller may use. */
export function universalSurface(counter: Counter, caller: Caller): Surface {
  const run = (name: string, args: unknown, signal?: AbortSignal): Promise<Answer> =>
    counter.invoke({ name, args, caller, via: "universal" }, signal).then(outcomeAnswer);

  /** Writes down what is answered without passing the door. What cannot be written is not answered either. */
  const noted = ({ name }: SurfaceTool, args: unknown, answer: Answer): Answer => {
    const code = answer.ok ? {} : { code: (answer.data as Problem).code };
    const note = { surface: "universal", tool: name, args, ok: answer.ok, ...code };
    const written = answering(() => counter.called(caller, note));
    return written.ok ? answer : written;
  };
  const look = (tool: SurfaceTool, args: unknown, work: (prepared: JsonObject) => unknown): Answer =>
    noted(
      tool,
      args,
      answering(() => work(prepare(tool, args))),
    );

  return {
    kind: "universal",
    tools: universalTools,
    async call(tool, args, signal) {
      switch (tool) {
        case "list_actions":
          return look(listActionsTool, args, (query) => listActions(counter.viewOf(caller), query));
        case "describe_action":
          return look(describeActionTool, args, ({ action_name }) =>
            describeAction(counter.viewOf(caller), String(action_name)),
          );
        case "invoke_action": {
          const understood = answering(() => prepare(invokeActionTool, args));
          if (!understood.ok) return noted(invokeActionTool, args, understood);
          const { action_name, args: inner } = understood.data as { action_name: string; args?: unknown };
          return run(action_name, inner, signal);
        }
        default:
          // A model that names an action as if it were a tool means that action.
          return run(tool, args, signal);
      }
    },
  };
}

function prepare(tool: SurfaceTool, args: unknown): JsonObject {
  return prepareArgs({ ...tool, examples: [] }, args).args;
}
