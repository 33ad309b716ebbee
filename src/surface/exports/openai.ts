import { getErrorMessage } from "../../core/errors.ts";
import { clip } from "../../core/json.ts";
import type { Surface } from "../surface.ts";
import { type ExportedSchema, exportTools } from "./exported-tool.ts";

export interface OpenAiChatTool {
  type: "function";
  function: { name: string; description: string; parameters: ExportedSchema };
}

/** A call in the `tool_calls` of an assistant's message. One without `function` is another kind of tool's. */
export interface OpenAiChatCall {
  readonly id: string;
  readonly type: string;
  readonly function?: { readonly name: string; readonly arguments: string };
}

export interface OpenAiToolMessage {
  role: "tool";
  tool_call_id: string;
  content: string;
}

export interface OpenAiResponsesTool {
  type: "function";
  name: string;
  description: string;
  parameters: ExportedSchema;
  strict: false;
}

/** An item of a response's `output`. */
export interface OpenAiResponsesItem {
  readonly type: string;
}

export interface OpenAiFunctionCallOutput {
  type: "function_call_output";
  call_id: string;
  output: string;
}

/** Chat Completions refuses a request with a longer description in it. */
const CHAT_DESCRIPTION_LIMIT = 1024;

/** The tools of a surface for Chat Completions and what speaks its protocol. OpenAI takes at most 128 of them. */
export function toOpenAiChatTools(surface: Surface): OpenAiChatTool[] {
  // Without `strict`, which is off by default here and unknown to some servers that speak this protocol.
  return exportTools(surface).map(({ name, description, schema }) => ({
    type: "function",
    function: { name, description: clip(description, CHAT_DESCRIPTION_LIMIT), parameters: schema },
  }));
}

/**
 * Runs every function call of an assistant's message, at the same time, and answers them in order. Never rejects for
 * what the model wrote: an unknown tool or broken JSON is answered with an error it can read. Calls of tools that are
 * not the surface's must be taken out before.
 */
export async function answerOpenAiChat(
  surface: Surface,
  calls: readonly OpenAiChatCall[] | null | undefined,
  signal?: AbortSignal,
): Promise<OpenAiToolMessage[]> {
  const answers = (calls ?? []).flatMap(({ id, function: called }) =>
    called === undefined
      ? []
      : [runFunctionCall(surface, called, signal).then((content) => toToolMessage(id, content))],
  );
  return Promise.all(answers);
}

/** The tools of a surface for the Responses API. */
export function toOpenAiResponsesTools(surface: Surface): OpenAiResponsesTool[] {
  return exportTools(surface).map(({ name, description, schema }) => ({
    type: "function",
    name,
    description,
    parameters: schema,
    strict: false,
  }));
}

/** Like `answerOpenAiChat`, for the `function_call` items of a response's `output`; other items are passed over. */
export async function answerOpenAiResponses(
  surface: Surface,
  items: readonly OpenAiResponsesItem[],
  signal?: AbortSignal,
): Promise<OpenAiFunctionCallOutput[]> {
  const answers = items
    .filter(isFunctionCall)
    .map((item) => runFunctionCall(surface, item, signal).then((output) => toFunctionCallOutput(item.call_id, output)));
  return Promise.all(answers);
}

interface FunctionCall {
  readonly name: string;
  /** JSON, or what the model took for it. */
  readonly arguments: string;
}

async function runFunctionCall(
  surface: Surface,
  { name, arguments: text }: FunctionCall,
  signal: AbortSignal | undefined,
) {
  const { args, problem } = readArguments(text);
  const answered = await surface.call(name, args, signal);
  return problem === undefined ? answered.text : `The arguments are not JSON: ${problem}\n${answered.text}`;
}

/**
 * Text that is not JSON goes on as it is: it fits no schema, so nothing runs, and the surface answers with the schema
 * and an example and has the call recorded.
 */
function readArguments(text: unknown): { readonly args: unknown; readonly problem?: string } {
  // Some servers that speak this protocol send the object itself, and many send nothing for a call without arguments.
  if (typeof text !== "string") return { args: text };
  if (text.trim() === "") return { args: {} };
  try {
    return { args: JSON.parse(text) };
  } catch (thrown) {
    return { args: text, problem: getErrorMessage(thrown) };
  }
}

function isFunctionCall(
  item: OpenAiResponsesItem,
): item is OpenAiResponsesItem & FunctionCall & { readonly call_id: string } {
  return item.type === "function_call";
}

function toToolMessage(id: string, content: string): OpenAiToolMessage {
  return { role: "tool", tool_call_id: id, content };
}

function toFunctionCallOutput(id: string, output: string): OpenAiFunctionCallOutput {
  return { type: "function_call_output", call_id: id, output };
}
