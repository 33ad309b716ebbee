import { getErrorMessage } from "../../core/errors.ts";
import { clip } from "../../core/json.ts";
import type { Surface } from "../surface.ts";
import { type ExportedSchema, exportTools } from "./exported-tool.ts";

export interface OpenAiChatTool {
  type: "function";
  function: { name: string; description: string; parameters: ExportedSchema };
}

/** A call in the `tool_calls` of an assistant's message. One without `function` is ignored. */
export interface OpenAiChatCall {
  readonly id: string;
  readonly type: string;
  readonly function?: { readonly name: string; readonly arguments: string };
}

export type OpenAiToolMessage = { role: "tool"; tool_call_id: string; content: string };

export interface OpenAiResponsesTool {
  type: "function";
  name: string;
  description: string;
  parameters: ExportedSchema;
  strict: false;
}

/** An item of a response's `output`. */
export type OpenAiResponsesItem = { readonly type: string };
export type OpenAiFunctionCallOutput = { type: "function_call_output"; call_id: string; output: string };

/** Chat Completions refuses a request with a longer description in it. */
const CHAT_DESCRIPTION_LIMIT = 1024;

/** The tools of a surface for Chat Completions and compatible servers. OpenAI takes at most 128. */
export function toOpenAiChatTools(surface: Surface): OpenAiChatTool[] {
  // Without `strict`, which some compatible servers do not know.
  return exportTools(surface).map(({ name, description, schema }) => ({
    type: "function",
    function: { name, description: clip(description, CHAT_DESCRIPTION_LIMIT), parameters: schema },
  }));
}

/**
 * Runs the function calls of an assistant's message in parallel and answers them in order. An unknown tool or broken JSON
 * gives an error for the model, not a rejection. Remove calls of foreign tools before.
 */
export async function answerOpenAiChat(
  surface: Surface,
  calls: readonly OpenAiChatCall[] | null | undefined,
  signal?: AbortSignal,
): Promise<OpenAiToolMessage[]> {
  const answer = async (id: string, call: FunctionCall): Promise<OpenAiToolMessage> => {
    return { role: "tool", tool_call_id: id, content: await runFunctionCall(surface, call, signal) };
  };
  return Promise.all((calls ?? []).flatMap(({ id, function: call }) => (call === undefined ? [] : [answer(id, call)])));
}

export const toOpenAiResponsesTools = (surface: Surface): OpenAiResponsesTool[] =>
  exportTools(surface).map(({ name, description, schema }) => ({
    type: "function",
    name,
    description,
    parameters: schema,
    strict: false,
  }));

/** Like `answerOpenAiChat`, for the `function_call` items of a response's `output`. Ignores other items. */
export async function answerOpenAiResponses(
  surface: Surface,
  items: readonly OpenAiResponsesItem[],
  signal?: AbortSignal,
): Promise<OpenAiFunctionCallOutput[]> {
  const calls = items.filter((item): item is ResponsesCall => item.type === "function_call");
  const answer = async (call: ResponsesCall): Promise<OpenAiFunctionCallOutput> => {
    const output = await runFunctionCall(surface, call, signal);
    return { type: "function_call_output", call_id: call.call_id, output };
  };
  return Promise.all(calls.map(answer));
}

interface FunctionCall {
  readonly name: string;
  /** Should be JSON. */
  readonly arguments: string;
}

type ResponsesCall = OpenAiResponsesItem & FunctionCall & { readonly call_id: string };

async function runFunctionCall(surface: Surface, { name, arguments: text }: FunctionCall, signal?: AbortSignal) {
  const { args, problem } = readArguments(text);
  const answered = await surface.call(name, args, signal);
  return problem === undefined ? answered.text : `The arguments are not JSON: ${problem}\n${answered.text}`;
}

/** Passes broken JSON on as text: it fits no schema, so the surface records the call and answers with the schema. */
function readArguments(text: unknown): { readonly args: unknown; readonly problem?: string } {
  // Some compatible servers send an object, and many send an empty text for a call without arguments.
  if (typeof text !== "string") return { args: text };
  if (text.trim() === "") return { args: {} };
  try {
    return { args: JSON.parse(text) };
  } catch (thrown) {
    return { args: text, problem: getErrorMessage(thrown) };
  }
}
