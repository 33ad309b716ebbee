import type { Surface } from "../surface.ts";
import { type ExportedSchema, exportedTools } from "./exported-tool.ts";

export interface AnthropicTool {
  name: string;
  description: string;
  input_schema: ExportedSchema;
}

/** A block of an assistant message's `content`. */
export interface AnthropicBlock {
  readonly type: string;
}

export interface AnthropicToolResult {
  type: "tool_result";
  tool_use_id: string;
  content: string;
  is_error: boolean;
}

/** The tools of a surface for the Messages API. */
export function toAnthropicTools(surface: Surface): AnthropicTool[] {
  return exportedTools(surface).map(({ name, description, schema }) => ({ name, description, input_schema: schema }));
}

/**
 * Runs every `tool_use` block of an assistant's message, at the same time, and answers them in order, as the content of
 * the user message that must follow; other blocks are passed over. Never rejects for what the model wrote. Calls of
 * tools that are not the surface's must be taken out before.
 */
export async function answerAnthropic(
  surface: Surface,
  blocks: readonly AnthropicBlock[],
  signal?: AbortSignal,
): Promise<AnthropicToolResult[]> {
  return Promise.all(blocks.filter(isToolUse).map((block) => result(surface, block, signal)));
}

interface ToolUse extends AnthropicBlock {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}

function isToolUse(block: AnthropicBlock): block is ToolUse {
  return block.type === "tool_use";
}

async function result(
  surface: Surface,
  { id, name, input }: ToolUse,
  signal: AbortSignal | undefined,
): Promise<AnthropicToolResult> {
  const { ok, text } = await surface.call(name, input, signal);
  return { type: "tool_result", tool_use_id: id, content: text, is_error: !ok };
}
