import type { FoundTools } from "../deferred-surface.ts";
import { toWireName } from "../native-tools.ts";
import type { Surface, SurfaceTool } from "../surface.ts";
import { type ExportedSchema, type ExportedTool, exportTools } from "./exported-tool.ts";

export interface AnthropicTool {
  name: string;
  description: string;
  input_schema: ExportedSchema;
  /** Known to the API and kept out of the prompt until a search refers to it. */
  defer_loading?: true;
}

/** A block of an assistant message's `content`. */
export interface AnthropicBlock {
  readonly type: string;
}

export interface AnthropicToolResult {
  type: "tool_result";
  tool_use_id: string;
  content: string | AnthropicFound[];
  is_error: boolean;
}

/** What a search answers where the API defers tools: the text, and a reference to each tool, which loads it. */
export type AnthropicFound = { type: "text"; text: string } | { type: "tool_reference"; tool_name: string };

export interface AnthropicToolOptions {
  /**
   * On a deferred surface: every action is sent, marked `defer_loading`. The API keeps them out of the prompt until
   * `tool_search` or `tool_get` refers to them, and the list of tools stays the same. For models that search tools.
   */
  readonly deferLoading?: boolean;
}

/** The tools of a surface for the Messages API. */
export function toAnthropicTools(
  surface: Surface,
  { deferLoading = false }: AnthropicToolOptions = {},
): AnthropicTool[] {
  const { tools, deferred = [] } = deferLoading ? surface : { tools: surface.tools };
  const later = new Set(deferred.map(({ name }) => name));
  const shown = tools.filter(({ name }) => !later.has(name));
  return [
    ...exportTools({ tools: shown }).map(toAnthropicTool),
    ...exportTools({ tools: deferred }).map((tool) => ({ ...toAnthropicTool(tool), defer_loading: true as const })),
  ];
}

function toAnthropicTool({ name, description, schema }: ExportedTool): AnthropicTool {
  return { name, description, input_schema: schema };
}

/**
 * Runs every `tool_use` block of an assistant's message, at the same time, and answers them in order, as the content of
 * the user message that must follow; other blocks are passed over. Never rejects for what the model wrote. Calls of
 * tools that are not the surface's must be taken out before.
 */
export async function answerAnthropic(
  surface: Surface,
  blocks: readonly AnthropicBlock[],
  options: AnthropicToolOptions & { readonly signal?: AbortSignal } = {},
): Promise<AnthropicToolResult[]> {
  return Promise.all(blocks.filter(isToolUse).map((block) => answerToolUse(surface, block, options)));
}

interface ToolUse extends AnthropicBlock {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}

function isToolUse(block: AnthropicBlock): block is ToolUse {
  return block.type === "tool_use";
}

async function answerToolUse(
  surface: Surface,
  { id, name, input }: ToolUse,
  { signal, deferLoading = false }: AnthropicToolOptions & { readonly signal?: AbortSignal },
): Promise<AnthropicToolResult> {
  const { ok, text, data } = await surface.call(name, input, signal);
  const found = ok && deferLoading && surface.deferred !== undefined ? toReferences(surface.deferred, name, data) : [];
  const content = found.length === 0 ? text : [{ type: "text" as const, text }, ...found];
  return { type: "tool_result", tool_use_id: id, content, is_error: !ok };
}

/** The API refuses a reference to what it was not sent, so only those that were are made. */
function toReferences(deferred: readonly SurfaceTool[], tool: string, data: unknown): AnthropicFound[] {
  if (tool !== "tool_search" && tool !== "tool_get") return [];
  const { tools } = data as Pick<FoundTools, "tools">;
  const sent = new Set(deferred.map(({ name }) => name));
  return tools
    .map(({ name }) => toWireName(name))
    .filter((name) => sent.has(name))
    .map((tool_name) => ({ type: "tool_reference", tool_name }));
}
