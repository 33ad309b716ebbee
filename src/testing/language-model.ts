import { omitUndefined } from "../core/json.ts";
import type { ModelAnswer, ModelMessage, ModelRequest } from "../core/model.ts";
import type { AiSdkModel, GeneratedAnswer } from "../model/ai-sdk-model.ts";

/** A tool call of a model for tests. `args` that are text are sent as they are, even if they are not JSON. */
export interface PlayedCall {
  readonly name: string;
  readonly args?: unknown;
  /** Default: counted up. */
  readonly id?: string;
}

/** One answer of a model for tests. */
export interface PlayedAnswer {
  readonly text?: string;
  readonly toolCalls?: readonly PlayedCall[];
  readonly reasoning?: string;
  /** Default: `tool-calls` if it calls a tool, else `stop`. */
  readonly finish?: ModelAnswer["finish"];
  /** Default: estimated, one for every four characters. */
  readonly tokens?: { readonly input: number; readonly output: number };
}

/** A language model of the AI SDK that records what it is asked. */
export interface TestModel extends AiSdkModel {
  /** All requests so far, in the form of Quartermaster's own models. Tools have the names that were sent. */
  readonly requests: readonly ModelRequest[];
}

export type CallOptions = Parameters<AiSdkModel["doGenerate"]>[0];
type StreamResult = Awaited<ReturnType<AiSdkModel["doStream"]>>;
type StreamPart = StreamResult["stream"] extends ReadableStream<infer Part> ? Part : never;

/** Creates a language model of the AI SDK, version 3 of its interface, from a function that answers requests. */
export function createTestModel(
  modelId: string,
  answer: (request: ModelRequest, at: number) => PlayedAnswer | Promise<PlayedAnswer>,
): TestModel {
  const requests: ModelRequest[] = [];
  const play = async (options: CallOptions): Promise<GeneratedAnswer> => {
    options.abortSignal?.throwIfAborted();
    const request = toModelRequest(options);
    const at = requests.push(request) - 1;
    return toGeneratedAnswer(await answer(request, at), request, at);
  };
  return {
    specificationVersion: "v3",
    provider: "quartermaster-testing",
    modelId,
    supportedUrls: {},
    requests,
    doGenerate: play,
    async doStream(options) {
      return { stream: streamAnswer(await play(options), options.abortSignal) };
    },
  };
}

function toGeneratedAnswer(
  { text, toolCalls = [], reasoning, finish, tokens }: PlayedAnswer,
  request: ModelRequest,
  at: number,
): GeneratedAnswer {
  const content: GeneratedAnswer["content"] = [
    ...(reasoning === undefined ? [] : [{ type: "reasoning" as const, text: reasoning }]),
    ...(text === undefined ? [] : [{ type: "text" as const, text }]),
    ...toolCalls.map(({ name, args = {}, id }, index) => ({
      type: "tool-call" as const,
      toolCallId: id ?? `call_${at}_${index}`,
      toolName: name,
      input: typeof args === "string" ? args : JSON.stringify(args),
    })),
  ];
  const { input = estimateTokens(request), output = estimateTokens(content) } = tokens ?? {};
  return {
    content,
    finishReason: { unified: finish ?? (toolCalls.length > 0 ? "tool-calls" : "stop"), raw: undefined },
    usage: {
      inputTokens: { total: input, noCache: input, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: output, text: output, reasoning: 0 },
    },
    warnings: [],
  };
}

const estimateTokens = (value: unknown): number => Math.ceil(JSON.stringify(value).length / 4);

/** The parts are made when they are read, so that an aborted stream stops. */
function streamAnswer(answer: GeneratedAnswer, signal: AbortSignal | undefined): StreamResult["stream"] {
  const parts = listParts(answer);
  return new ReadableStream({
    pull(controller) {
      if (signal?.aborted === true) return controller.error(signal.reason);
      const { done, value } = parts.next();
      if (done === true) controller.close();
      else controller.enqueue(value);
    },
  });
}

function* listParts({ content, finishReason, usage, warnings }: GeneratedAnswer): Generator<StreamPart> {
  yield { type: "stream-start", warnings };
  for (const [index, part] of content.entries()) {
    const id = String(index);
    if (part.type === "tool-call") yield part;
    if (part.type !== "text" && part.type !== "reasoning") continue;
    yield { type: `${part.type}-start`, id };
    // Word by word.
    for (const delta of part.text.match(/\s*\S+\s*$|\s*\S+/g) ?? [part.text])
      yield { type: `${part.type}-delta`, id, delta };
    yield { type: `${part.type}-end`, id };
  }
  yield { type: "finish", finishReason, usage };
}

function toModelRequest(options: CallOptions): ModelRequest {
  const { prompt, tools = [], toolChoice, responseFormat, maxOutputTokens, temperature } = options;
  const system = prompt.flatMap(({ role, content }) => (role === "system" ? [content] : [])).join("\n\n");
  const offered = tools.flatMap((tool) => {
    if (tool.type !== "function") return [];
    const { name, description = "", inputSchema } = tool;
    return [{ name, description, inputSchema: inputSchema as NonNullable<ModelRequest["outputSchema"]> }];
  });
  const choice = toolChoice?.type === "tool" ? { tool: toolChoice.toolName } : toolChoice?.type;
  const outputSchema = responseFormat?.type === "json" ? responseFormat.schema : undefined;
  return {
    ...(system === "" ? {} : { system }),
    messages: prompt.flatMap(toModelMessage),
    ...(offered.length === 0 ? {} : { tools: offered }),
    ...omitUndefined({ toolChoice: choice, maxOutputTokens, temperature }),
    ...(outputSchema === undefined ? {} : { outputSchema: outputSchema as NonNullable<ModelRequest["outputSchema"]> }),
  };
}

function toModelMessage({ role, content }: CallOptions["prompt"][number]): ModelMessage[] {
  if (role === "system") return [];
  if (role === "tool") {
    const results = content.flatMap((part) => {
      if (part.type !== "tool-result") return [];
      const { toolCallId: id, toolName: name, output } = part;
      const value = "value" in output ? output.value : "";
      return [{ id, name, text: typeof value === "string" ? value : JSON.stringify(value) }];
    });
    return [{ role, results }];
  }
  const text = content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("");
  if (role === "user") return [{ role, text }];
  const toolCalls = content.flatMap((part) =>
    part.type === "tool-call" ? [{ id: part.toolCallId, name: part.toolName, args: part.input }] : [],
  );
  return [{ role, text, toolCalls }];
}
