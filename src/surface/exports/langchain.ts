import { ToolMessage } from "@langchain/core/messages";
import { DynamicStructuredTool, type StructuredTool, type ToolRunnableConfig } from "@langchain/core/tools";
import type { Answer, Surface } from "../surface.ts";
import { type ExportedSchema, exportedTools } from "./exported-tool.ts";

/**
 * The tools of a surface for LangChain and LangGraph. A model's call is answered with a `ToolMessage` that holds the
 * bounded text, `status` and, as `artifact`, the whole `Answer`; invoked with bare arguments, a tool answers the text.
 */
export function toLangChainTools(surface: Surface): StructuredTool[] {
  return exportedTools(surface).map(
    ({ name, description, schema }) =>
      new SurfaceStructuredTool({
        name,
        description,
        schema,
        func: async (args, _runManager, config) => {
          const { toolCall, signal }: ToolRunnableConfig = config ?? {};
          const answer = await surface.call(name, args, signal);
          return toolCall?.id === undefined ? answer.text : toolMessage(name, toolCall.id, answer);
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

function toolMessage(name: string, id: string, answer: Answer): ToolMessage {
  return new ToolMessage({
    name,
    tool_call_id: id,
    content: answer.text,
    status: answer.ok ? "success" : "error",
    artifact: answer,
  });
}
