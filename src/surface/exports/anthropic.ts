import { toWireName } from "../../core/wire-names.ts";
import type { FoundTools } from "../deferred-surface.ts";
import type { Surface, SurfaceTool } from "../surface.ts";
import { type ExportedSchema, exportTools } from "./exported-tool.ts";

export interface AnthropicTool {
  name: string;
  description: string;
  input_schema: ExportedSchema;
  /** The API keeps the tool out of the prompt until a search refers to it. */
  defer_loading?: true;
}

/** A block of an assistant message's `content`. */
export type AnthropicBlock = { readonly type: string };

export interface AnthropicToolResult {
  type: "tool_result";
  tool_use_id: string;
  content: string | AnthropicFound[];
  is_error: boolean;
}

/** The answer of a search with `deferLoading`: its text, and references that load the tools. */
export type AnthropicFound = { type: "text"; text: string } | { type: "tool_reference"; tool_name: string };

export interface AnthropicToolOptions {
  /** On a deferred surface: sends every action, marked `defer_loading`, so that the list of tools stays the same. */
  readonly deferLoading?: boolean;
}

export function toAnthropicTools(
  surface: Surface,
  { deferLoading = false }: AnthropicToolOptions = {},
): AnthropicTool[] {
  const { tools, deferred = [] } = deferLoading ? surface : { tools: surface.tools };
  const later = new Set(deferred.map(({ name }) => name));
  const now = tools.filter(({ name }) => !later.has(name));
  const exportAll = (tools: readonly SurfaceTool[]): AnthropicTool[] =>
    exportTools({ tools }).map(({ name, description, schema }) => ({ name, description, input_schema: schema }));
  return [...exportAll(now), ...exportAll(deferred).map((tool) => ({ ...tool, defer_loading: true as const }))];
}

/**
 * Runs the `tool_use` blocks of an assistant's message in parallel and answers them in order, for the next user message.
 * Ignores other blocks. Bad input from the model does not reject. Remove calls of foreign tools before.
 */
export async function answerAnthropic(
  surface: Surface,
  blocks: readonly AnthropicBlock[],
  options: AnthropicToolOptions & { readonly signal?: AbortSignal } = {},
): Promise<AnthropicToolResult[]> {
  const calls = blocks.filter((block): block is ToolUse => block.type === "tool_use");
  return Promise.all(calls.map((call) => answerToolUse(surface, call, options)));
}

interface ToolUse extends AnthropicBlock {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
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

/** Only to tools that were sent: the API refuses other references. */
function toReferences(deferred: readonly SurfaceTool[], tool: string, data: unknown): AnthropicFound[] {
  if (tool !== "tool_search" && tool !== "tool_get") return [];
  const { tools } = data as Pick<FoundTools, "tools">;
  const sent = new Set(deferred.map(({ name }) => name));
  return tools
    .map(({ name }) => toWireName(name))
    .filter((name) => sent.has(name))
    .map((tool_name) => ({ type: "tool_reference", tool_name }));
}
