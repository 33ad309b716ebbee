import { ToolMessage } from "@langchain/core/messages";
import { DynamicStructuredTool, type StructuredTool, type ToolRunnableConfig } from "@langchain/core/tools";
import type { Surface, SurfaceAnswer } from "../surface.ts";
import { type ExportedSchema, exportTools } from "./exported-tool.ts";

/**
 * The tools of a surface for LangChain and LangGraph. A tool call gives a `ToolMessage` with the text, the status and, as
 * `artifact`, the whole `SurfaceAnswer`. Invoked with bare arguments, a tool gives the text.
 */
export const toLangChainTools = (surface: Surface): StructuredTool[] =>
  exportTools(surface).map(
    ({ name, description, schema }) =>
      new SurfaceStructuredTool({
        name,
        description,
        schema,
        func: async (args, _runManager, config) => {
          const { toolCall, signal }: ToolRunnableConfig = config ?? {};
          const answer = await surface.call(name, args, signal);
          return toolCall?.id === undefined ? answer.text : toToolMessage(name, toolCall.id, answer);
        },
      }),
  );

/** Skips LangChain's check: the surface tells the schema, records the call and runs patterns in bounded time. */
class SurfaceStructuredTool extends DynamicStructuredTool<ExportedSchema> {
  override call: DynamicStructuredTool<ExportedSchema>["call"] = (...given) => {
    const unchecked = Object.create(this, { schema: { value: {} } });
    return DynamicStructuredTool.prototype.call.apply(unchecked, given);
  };
}

function toToolMessage(name: string, id: string, answer: SurfaceAnswer): ToolMessage {
  const status = answer.ok ? "success" : "error";
  return new ToolMessage({ name, tool_call_id: id, content: answer.text, status, artifact: answer });
}
