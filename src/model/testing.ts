import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** What the server answers to one request: a model's answer, a plain HTTP answer, or anything a function writes. */
export type ScriptedAnswer =
  | {
      readonly text?: string;
      readonly toolCalls?: readonly { readonly id: string; readonly name: string; readonly input: unknown }[];
      /** Reasoning that must come back with its signature. */
      readonly thinking?: { readonly text: string; readonly signature: string };
      /** Default: 10 in, 5 out. `null`: the server reports none. */
      readonly tokens?: { readonly input: number; readonly output: number } | null;
      readonly isCut?: boolean;
    }
  | { readonly status: number; readonly headers?: Readonly<Record<string, string>>; readonly body?: unknown }
  | ((response: ServerResponse) => void);

export interface ModelServerRequest {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Readonly<Record<string, unknown>>;
}

export interface ScriptedModelServer {
  /** For `base_url`: it speaks OpenAI's chat completions and Anthropic's messages. */
  readonly url: string;
  readonly requests: readonly ModelServerRequest[];
  close(): Promise<void>;
}

/** Starts a model server on this machine that gives these answers in order, and status 500 when there are no more. */
export async function startScriptedServer(...script: readonly ScriptedAnswer[]): Promise<ScriptedModelServer> {
  const requests: ModelServerRequest[] = [];
  const waiting = [...script];
  const server = createServer(async (request, response) => {
    const { url: path = "", headers } = request;
    const asked = await readJson(request);
    requests.push({ path, headers, body: asked });
    const next = waiting.shift() ?? { status: 500, body: { error: { message: "the script has no more answers" } } };
    if (typeof next === "function") return next(response);
    if (!("status" in next) && asked.stream === true) {
      response.writeHead(200, EVENT_STREAM).end(toStreamEvents(path, next, asked).map(formatEvent).join(""));
      return;
    }
    const { status = 200, headers: extra = {}, body } = "status" in next ? next : { body: toApiAnswer(path, next) };
    response.writeHead(status, { "content-type": "application/json", ...extra });
    response.end(typeof body === "string" ? body : JSON.stringify(body ?? {}));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

type ModelAnswerScript = Exclude<ScriptedAnswer, { readonly status: number } | ((response: ServerResponse) => void)>;

const toApiAnswer = (path: string, answer: ModelAnswerScript): unknown =>
  path.endsWith("/messages") ? toAnthropicMessage(answer) : toChatCompletion(answer);

function toChatCompletion({ text, toolCalls = [], tokens = DEFAULT_TOKENS, isCut }: ModelAnswerScript) {
  const calls = toolCalls.map(({ id, name, input }) => {
    return { id, type: "function", function: { name, arguments: toArgumentText(input) } };
  });
  const message = { role: "assistant", content: text ?? null, ...(calls.length === 0 ? {} : { tool_calls: calls }) };
  const finish = isCut === true ? "length" : calls.length === 0 ? "stop" : "tool_calls";
  return {
    id: "answer",
    object: "chat.completion",
    created: 0,
    model: "scripted",
    choices: [{ index: 0, message, finish_reason: finish }],
    ...(tokens === null ? {} : { usage: { prompt_tokens: tokens.input, completion_tokens: tokens.output } }),
  };
}

function toAnthropicMessage({ text, toolCalls = [], thinking, tokens, isCut }: ModelAnswerScript) {
  const { input, output } = tokens ?? DEFAULT_TOKENS;
  const thought = thinking && { type: "thinking", thinking: thinking.text, signature: thinking.signature };
  return {
    id: "answer",
    type: "message",
    role: "assistant",
    model: "scripted",
    content: [
      ...(thought === undefined ? [] : [thought]),
      ...(text === undefined ? [] : [{ type: "text", text }]),
      ...toolCalls.map((call) => ({ type: "tool_use", ...call })),
    ],
    stop_reason: isCut === true ? "max_tokens" : toolCalls.length === 0 ? "end_turn" : "tool_use",
    stop_sequence: null,
    usage: { input_tokens: input, output_tokens: output },
  };
}

export const EVENT_STREAM = { "content-type": "text/event-stream" };

/** An event of a stream. Anthropic's have a name, which is their `type`. */
export const formatEvent = (event: unknown): string => {
  const type = typeof event === "object" && event !== null && "type" in event ? `event: ${event.type}\n` : "";
  return `${type}data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`;
};

/** OpenAI's API reports the tokens of a stream only if it is asked to. */
const toStreamEvents = (path: string, answer: ModelAnswerScript, { stream_options }: ModelServerRequest["body"]) =>
  path.endsWith("/messages") ? toAnthropicEvents(answer) : toChatChunks(answer, stream_options !== undefined);

/** Text and arguments come in pieces of a few characters. */
const cut = (text: string): readonly string[] => text.match(/[\s\S]{1,7}/g) ?? [""];

function toChatChunks(answer: ModelAnswerScript, withUsage: boolean): readonly unknown[] {
  const { choices, usage, ...about } = toChatCompletion(answer);
  const { message, finish_reason } = choices[0] ?? {};
  const calls = message?.tool_calls ?? [];
  const deltas = [
    ...(message?.content == null ? [] : cut(message.content).map((content) => ({ content }))),
    ...calls.flatMap(({ function: { name, arguments: text }, ...call }, index) => [
      { tool_calls: [{ index, ...call, function: { name, arguments: "" } }] },
      ...cut(text).map((piece) => ({ tool_calls: [{ index, function: { arguments: piece } }] })),
    ]),
  ];
  const chunk = (choice: object) => ({ ...about, object: "chat.completion.chunk", choices: [{ index: 0, ...choice }] });
  return [
    ...deltas.map((delta) => chunk({ delta })),
    chunk({ delta: {}, finish_reason }),
    ...(usage === undefined || !withUsage ? [] : [{ ...about, object: "chat.completion.chunk", choices: [], usage }]),
    "[DONE]",
  ];
}

function toAnthropicEvents(answer: ModelAnswerScript): readonly unknown[] {
  const { content, stop_reason, stop_sequence, usage, ...message } = toAnthropicMessage(answer);
  const blocks = content.flatMap((block, index) => {
    const { start, deltas } = toBlockParts(block);
    return [
      { type: "content_block_start", index, content_block: start },
      ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
      { type: "content_block_stop", index },
    ];
  });
  const { output_tokens } = usage;
  return [
    { type: "message_start", message: { ...message, content: [], stop_reason: null, stop_sequence: null, usage } },
    { type: "ping" },
    ...blocks,
    { type: "message_delta", delta: { stop_reason, stop_sequence }, usage: { output_tokens } },
    { type: "message_stop" },
  ];
}

function toBlockParts(block: ReturnType<typeof toAnthropicMessage>["content"][number]) {
  if ("text" in block) {
    const deltas: object[] = cut(block.text).map((text) => ({ type: "text_delta", text }));
    return { start: { ...block, text: "" }, deltas };
  }
  if ("thinking" in block) {
    const deltas = cut(block.thinking).map((thinking) => ({ type: "thinking_delta", thinking }));
    const signed = { type: "signature_delta", signature: block.signature };
    return { start: { ...block, thinking: "", signature: "" }, deltas: [...deltas, signed] };
  }
  const deltas = cut(toArgumentText(block.input)).map((piece) => ({ type: "input_json_delta", partial_json: piece }));
  return { start: { ...block, input: {} }, deltas };
}

const DEFAULT_TOKENS = { input: 10, output: 5 };
const toArgumentText = (input: unknown): string => (typeof input === "string" ? input : JSON.stringify(input));

async function readJson(request: IncomingMessage): Promise<ModelServerRequest["body"]> {
  let text = "";
  for await (const chunk of request) text += chunk;
  return JSON.parse(text) as ModelServerRequest["body"];
}
