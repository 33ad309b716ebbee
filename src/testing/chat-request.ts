import type { JsonSchema } from "../core/action.ts";
import { omitUndefined } from "../core/json.ts";
import type { CallOptions } from "./language-model.ts";

type ChatContent = string | null | readonly { readonly type: string; readonly text?: string }[];

interface ChatMessage {
  readonly role: string;
  readonly content?: ChatContent;
  readonly tool_calls?: readonly {
    readonly id: string;
    readonly function: { readonly name: string; readonly arguments: string };
  }[];
  readonly tool_call_id?: string;
}

/** The body of a request for a chat completion, as far as it is read. */
export interface ChatBody {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly {
    readonly function: {
      readonly name: string;
      readonly description?: string;
      readonly parameters?: JsonSchema;
    };
  }[];
  readonly tool_choice?: "auto" | "none" | "required" | { readonly function: { readonly name: string } };
  readonly response_format?: { readonly type: string; readonly json_schema?: { readonly schema?: JsonSchema } };
  readonly max_tokens?: number;
  readonly temperature?: number;
  readonly stream?: boolean;
  readonly stream_options?: { readonly include_usage?: boolean };
}

type Prompt = CallOptions["prompt"];

/** The same request in the form of the AI SDK. */
export function toCallOptions(body: ChatBody): CallOptions {
  const { messages, tools = [], tool_choice: choice, response_format: format, max_tokens, temperature } = body;
  const names = new Map<string, string>();
  for (const { tool_calls = [] } of messages) for (const call of tool_calls) names.set(call.id, call.function.name);
  return {
    prompt: messages.map((message) => toPromptMessage(message, names)),
    ...omitUndefined({ maxOutputTokens: max_tokens, temperature }),
    ...(format?.json_schema === undefined ? {} : { responseFormat: { type: "json", ...format.json_schema } }),
    ...(tools.length === 0
      ? {}
      : {
          tools: tools.map(({ function: { name, description, parameters } }) => {
            return { type: "function", name, ...omitUndefined({ description }), inputSchema: parameters ?? {} };
          }),
          toolChoice:
            typeof choice === "object" ? { type: "tool", toolName: choice.function.name } : { type: choice ?? "auto" },
        }),
  } as CallOptions;
}

function toPromptMessage(
  { role, content, tool_calls = [], tool_call_id: id = "" }: ChatMessage,
  names: ReadonlyMap<string, string>,
): Prompt[number] {
  const text = readText(content);
  if (role === "system" || role === "developer") return { role: "system", content: text };
  if (role === "user") return { role, content: [{ type: "text", text }] };
  if (role === "tool") {
    const output = { type: "text" as const, value: text };
    return { role, content: [{ type: "tool-result", toolCallId: id, toolName: names.get(id) ?? "", output }] };
  }
  const calls = tool_calls.map((call) => ({
    type: "tool-call" as const,
    toolCallId: call.id,
    toolName: call.function.name,
    input: parseInput(call.function.arguments),
  }));
  return { role: "assistant", content: [...(text === "" ? [] : [{ type: "text" as const, text }]), ...calls] };
}

function readText(content: ChatContent | undefined): string {
  if (typeof content === "string") return content;
  return (content ?? []).map(({ text = "" }) => text).join("");
}

function parseInput(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
