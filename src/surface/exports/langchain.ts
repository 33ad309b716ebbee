import { ToolMessage } from "@langchain/core/messages";
import { DynamicStructuredTool, type StructuredTool, type ToolRunnableConfig } from "@langchain/core/tools";
import type { Surface, SurfaceAnswer } from "../surface.ts";
import { type ExportedSchema, exportTools } from "./exported-tool.ts";

/**
 * The tools of a surface for LangChain and LangGraph. A model's call is answered with a `ToolMessage` that holds the
 * bounded text, `status` and, as `artifact`, the whole `Answer`; invoked with bare arguments, a tool answers the text.
 */
export function toLangChainTools(surface: Surface): StructuredTool[] {
  return exportTools(surface).map(
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
}

/**
 * Leaves the checking of arguments to the surface. LangChain's own check would come first, tell the model neither the
 * schema nor an example, keep the call out of the ledger, and run a foreign schema's patterns without a bound.
 */
class SurfaceStructuredTool extends DynamicStructuredTool<ExportedSchema> {
  override call: DynamicStructuredTool<ExportedSchema>["call"] = (...given) => {
    const unchecked = Object.create(this, { schema: { value: {} } });
    return DynamicStructuredTool.prototype.call.apply(unchecked, given);
  };
}

function toToolMessage(name: string, id: string, answer: SurfaceAnswer): ToolMessage {
  return new ToolMessage({
    name,
    tool_call_id: id,
    content: answer.text,
    status: answer.ok ? "success" : "error",
    artifact: answer,
  });
}
