import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { getErrorMessage } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import type { AiSdkModel, GeneratedAnswer } from "../model/ai-sdk-model.ts";
import { type ChatBody, toCallOptions } from "./chat-request.ts";

/** A running server. `url` is for `base_url` of a model with the provider `openai-compatible`. */
export interface ModelServer {
  readonly url: string;
  close(): Promise<void>;
}

/**
 * Serves a language model of the AI SDK over HTTP on this machine, as OpenAI's chat completions do, whole and streamed. For
 * programs that know a model only by its URL. It checks no key.
 */
export async function startModelServer(model: AiSdkModel): Promise<ModelServer> {
  const server = createServer((request, response) => {
    const controller = new AbortController();
    response.on("close", () => controller.abort());
    answer(model, request, response, controller.signal).catch((thrown: unknown) => sendError(response, thrown));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

class RequestError extends Error {}

async function answer(
  model: AiSdkModel,
  request: IncomingMessage,
  response: ServerResponse,
  abortSignal: AbortSignal,
): Promise<void> {
  if (request.method !== "POST" || !request.url?.endsWith("/chat/completions"))
    throw new RequestError(`only POST /v1/chat/completions is served`);
  const body = await readBody(request);
  const options = { ...toCallOptions(body), abortSignal };
  const about = { id: "chatcmpl-simulated", created: 0, model: model.modelId };
  if (body.stream !== true) {
    const generated = await model.doGenerate(options);
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ ...about, object: "chat.completion", ...toCompletion(generated) }));
    return;
  }
  const { stream } = await model.doStream(options);
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (data: object) => {
    response.write(`data: ${JSON.stringify({ ...about, object: "chat.completion.chunk", ...data })}\n\n`);
  };
  let calls = 0;
  for await (const part of stream) {
    if (part.type === "text-delta") send(toChoice({ content: part.delta }));
    if (part.type === "reasoning-delta") send(toChoice({ reasoning_content: part.delta }));
    if (part.type === "tool-call") send(toChoice({ tool_calls: [{ index: calls++, ...toToolCall(part) }] }));
    if (part.type === "error") throw part.error;
    if (part.type !== "finish") continue;
    send(toChoice({}, toFinishReason(part.finishReason)));
    if (body.stream_options?.include_usage === true) send({ choices: [], usage: toUsage(part.usage) });
  }
  response.end("data: [DONE]\n\n");
}

const BODY_LIMIT = 64 * 2 ** 20;

async function readBody(request: IncomingMessage): Promise<ChatBody> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > BODY_LIMIT) throw new RequestError("the request is too long");
    chunks.push(chunk);
  }
  try {
    const body: unknown = JSON.parse(Buffer.concat(chunks).toString("utf8"));
    if (isRecord(body) && Array.isArray(body.messages)) return body as unknown as ChatBody;
  } catch {
    // Answered below.
  }
  throw new RequestError("the body is not a request for a chat completion");
}

const toChoice = (delta: object, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta, finish_reason }],
});

function toCompletion({ content, finishReason, usage }: GeneratedAnswer) {
  const join = (type: "text" | "reasoning") =>
    content.flatMap((part) => (part.type === type ? [part.text] : [])).join("") || undefined;
  const calls = content.flatMap((part) => (part.type === "tool-call" ? [toToolCall(part)] : []));
  const message = {
    role: "assistant",
    content: join("text") ?? null,
    reasoning_content: join("reasoning"),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  return { choices: [{ index: 0, message, finish_reason: toFinishReason(finishReason) }], usage: toUsage(usage) };
}

type ToolCallPart = Extract<GeneratedAnswer["content"][number], { type: "tool-call" }>;

const toToolCall = ({ toolCallId: id, toolName: name, input }: ToolCallPart) => ({
  id,
  type: "function",
  function: { name, arguments: input },
});

const toFinishReason = ({ unified }: GeneratedAnswer["finishReason"]): string =>
  ({ "tool-calls": "tool_calls", "content-filter": "content_filter", error: "stop", other: "stop" })[
    unified as string
  ] ?? unified;

function toUsage({ inputTokens, outputTokens }: GeneratedAnswer["usage"]) {
  const [prompt_tokens, completion_tokens] = [inputTokens.total ?? 0, outputTokens.total ?? 0];
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}

function sendError(response: ServerResponse, thrown: unknown): void {
  const error = { message: getErrorMessage(thrown) };
  // A stream has begun: its last event is the error.
  if (response.headersSent) {
    response.end(`data: ${JSON.stringify({ error })}\n\n`);
    return;
  }
  response.writeHead(thrown instanceof RequestError ? 400 : 500, { "content-type": "application/json" });
  response.end(JSON.stringify({ error }));
}
