import { isRecord, type JsonObject } from "../src/core/json.ts";

export interface OfferedFunction {
  readonly name: string;
  /** The Responses API groups the tools of an MCP server. */
  readonly namespace?: string;
}

export type ModelReply =
  | { readonly text: string }
  | { readonly call: OfferedFunction & { readonly id: string; readonly args: JsonObject } };

/** How one model API writes a conversation, and how it streams an answer. */
export interface Dialect {
  readonly path: RegExp;
  read(request: Fields): { readonly tools: readonly OfferedFunction[]; readonly results: readonly string[] };
  stream(reply: ModelReply): readonly JsonObject[];
  /** What follows the last event. */
  readonly end?: string;
}

type Fields = Readonly<Record<string, unknown>>;
const MODEL = "scripted";

export const dialects: readonly Dialect[] = [
  {
    path: /\/chat\/completions$/,
    read: ({ tools, messages }) => ({
      tools: toRecords(tools).flatMap(({ function: offered }) => toFunctions([offered])),
      results: toRecords(messages)
        .filter(({ role }) => role === "tool")
        .map(({ content }) => toText(content)),
    }),
    stream(reply) {
      const delta =
        "text" in reply
          ? { role: "assistant", content: reply.text }
          : {
              role: "assistant",
              tool_calls: [
                {
                  index: 0,
                  id: reply.call.id,
                  type: "function",
                  function: { name: reply.call.name, arguments: JSON.stringify(reply.call.args) },
                },
              ],
            };
      const chunk = (choice: JsonObject): JsonObject => ({
        id: "chat_1",
        object: "chat.completion.chunk",
        created: 0,
        model: MODEL,
        choices: [{ index: 0, ...choice }],
      });
      const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
      return [
        chunk({ delta, finish_reason: null }),
        { ...chunk({ delta: {}, finish_reason: "text" in reply ? "stop" : "tool_calls" }), usage },
      ];
    },
    end: "data: [DONE]\n\n",
  },
  {
    path: /\/responses$/,
    read: ({ tools, input }) => ({
      tools: toRecords(tools).flatMap((tool) =>
        tool.type === "namespace"
          ? toFunctions(tool.tools).map((each) => ({ ...each, namespace: String(tool.name) }))
          : toFunctions([tool]),
      ),
      results: toRecords(input)
        .filter(({ type }) => type === "function_call_output")
        .map(({ output }) => toText(output)),
    }),
    stream(reply) {
      const item =
        "text" in reply
          ? {
              type: "message",
              id: "message_1",
              role: "assistant",
              status: "completed",
              content: [{ type: "output_text", text: reply.text, annotations: [] }],
            }
          : {
              type: "function_call",
              id: `item_${reply.call.id}`,
              call_id: reply.call.id,
              name: reply.call.name,
              ...(reply.call.namespace === undefined ? {} : { namespace: reply.call.namespace }),
              arguments: JSON.stringify(reply.call.args),
              status: "completed",
            };
      const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
      return [
        { type: "response.created", response: { id: "response_1" } },
        { type: "response.output_item.done", output_index: 0, item },
        { type: "response.completed", response: { id: "response_1", output: [item], usage } },
      ];
    },
  },
  {
    path: /\/v1\/messages(?:\?|$)/,
    read: ({ tools, messages }) => ({
      tools: toFunctions(tools),
      results: toRecords(messages).flatMap(({ content }) =>
        toRecords(content)
          .filter(({ type }) => type === "tool_result")
          .map((part) => toText(part.content)),
      ),
    }),
    stream(reply) {
      const usage = { input_tokens: 1, output_tokens: 1 };
      const message = { id: "message_1", type: "message", role: "assistant", model: MODEL, content: [], usage };
      const [content_block, delta] =
        "text" in reply
          ? [
              { type: "text", text: "" },
              { type: "text_delta", text: reply.text },
            ]
          : [
              { type: "tool_use", id: reply.call.id, name: reply.call.name, input: {} },
              { type: "input_json_delta", partial_json: JSON.stringify(reply.call.args) },
            ];
      const stop_reason = "text" in reply ? "end_turn" : "tool_use";
      return [
        { type: "message_start", message: { ...message, stop_reason: null, stop_sequence: null } },
        { type: "content_block_start", index: 0, content_block },
        { type: "content_block_delta", index: 0, delta },
        { type: "content_block_stop", index: 0 },
        { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage },
        { type: "message_stop" },
      ];
    },
  },
  {
    path: /:streamGenerateContent/,
    read: ({ tools, contents }) => ({
      tools: toRecords(tools).flatMap(({ functionDeclarations }) => toFunctions(functionDeclarations)),
      results: toRecords(contents).flatMap(({ parts }) =>
        toRecords(parts).flatMap(({ functionResponse }) =>
          isRecord(functionResponse) ? [toText(functionResponse.response)] : [],
        ),
      ),
    }),
    stream(reply) {
      const part =
        "text" in reply
          ? { text: reply.text }
          : { functionCall: { id: reply.call.id, name: reply.call.name, args: reply.call.args } };
      const usageMetadata = { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 };
      return [
        {
          candidates: [{ index: 0, content: { role: "model", parts: [part] }, finishReason: "STOP" }],
          usageMetadata,
          modelVersion: MODEL,
        },
      ];
    },
  },
];

function toRecords(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.filter(isRecord) : [];
}

function toFunctions(value: unknown): readonly OfferedFunction[] {
  return toRecords(value).flatMap(({ name }) => (typeof name === "string" ? [{ name }] : []));
}

function toText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
