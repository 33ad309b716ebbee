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
export async function startModelServer(...script: readonly ScriptedAnswer[]): Promise<ScriptedModelServer> {
  const requests: ModelServerRequest[] = [];
  const waiting = [...script];
  const server = createServer(async (request, response) => {
    const { url: path = "", headers } = request;
    requests.push({ path, headers, body: await readJson(request) });
    const next = waiting.shift() ?? { status: 500, body: { error: { message: "the script has no more answers" } } };
    if (typeof next === "function") return next(response);
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

const DEFAULT_TOKENS = { input: 10, output: 5 };
const toArgumentText = (input: unknown): string => (typeof input === "string" ? input : JSON.stringify(input));

async function readJson(request: IncomingMessage): Promise<ModelServerRequest["body"]> {
  let text = "";
  for await (const chunk of request) text += chunk;
  return JSON.parse(text) as ModelServerRequest["body"];
}
