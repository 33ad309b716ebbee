import type { LanguageModelV3 } from "@ai-sdk/provider";
import { QmError } from "../core/errors.ts";
import { isRecord, type Json, omitUndefined } from "../core/json.ts";
import type {
  Model,
  ModelAnswer,
  ModelMessage,
  ModelPrice,
  ModelRequest,
  ModelToolCall,
  TextListener,
} from "../core/model.ts";
import { createWireNames } from "../core/wire-names.ts";
import { type Attempt, type ModelLimits, withAttempts } from "./attempts.ts";
import { collectStream } from "./collect-stream.ts";

/** A language model of the AI SDK, version 6: `anthropic("…")`, `openai("…")`, a mock of `ai/test`. */
export type AiSdkModel = LanguageModelV3;

type CallOptions = Parameters<AiSdkModel["doGenerate"]>[0];
export type GeneratedAnswer = Awaited<ReturnType<AiSdkModel["doGenerate"]>>;
type Prompt = CallOptions["prompt"];
type AssistantPart = Extract<Prompt[number], { role: "assistant" }>["content"][number];
type WireNames = ReturnType<typeof createWireNames>;

export interface AiSdkModelSettings extends Partial<ModelLimits> {
  readonly price?: ModelPrice;
}

/** Creates a model from a language model of the AI SDK, with retries and a time limit for each attempt. */
export function createAiSdkModel(model: AiSdkModel, { price, ...limits }: AiSdkModelSettings = {}): Model {
  return {
    name: model.modelId,
    ...omitUndefined({ price }),
    generate: (request, signal, onText) =>
      generateWithModel(model, request, { name: model.modelId, ...limits, signal, onText }),
  };
}

interface Generation extends Partial<ModelLimits> {
  readonly name: string;
  readonly apiKey?: string | undefined;
  readonly signal: AbortSignal;
  /** Given: the answer is streamed. */
  readonly onText?: TextListener | undefined;
}

/** Sends one request, repeated as the limits allow. Rejects with a `QmError` that does not contain the key. */
export async function generateWithModel(
  model: Pick<AiSdkModel, "doGenerate" | "doStream">,
  request: ModelRequest,
  { onText, ...limits }: Generation,
): Promise<ModelAnswer> {
  const names = createWireNames(listToolNames(request));
  const options = toCallOptions(request, names);
  const send = async ({ signal: abortSignal, restartTimer, forbidRepeat }: Attempt) => {
    if (onText === undefined) return model.doGenerate({ ...options, abortSignal });
    const { stream } = await model.doStream({ ...options, abortSignal });
    const show = (piece: string): void => {
      // A second attempt would show the text twice.
      forbidRepeat();
      // The answer does not depend on the listener, which may also be an async function.
      void (async () => onText(piece))().catch(() => {});
    };
    return collectStream(stream, abortSignal, { onText: show, onPart: restartTimer });
  };
  const { answer, attempts } = await withAttempts(limits, send);
  return toModelAnswer(answer, request, names, attempts);
}

/** The names in earlier messages too: their tools may not be offered any more. */
function* listToolNames({ tools = [], messages }: ModelRequest): Generator<string> {
  for (const { name } of tools) yield name;
  for (const message of messages) {
    if (message.role === "assistant") for (const { name } of message.toolCalls) yield name;
    if (message.role === "tool") for (const { name } of message.results) yield name;
  }
}

function toCallOptions(request: ModelRequest, names: WireNames): CallOptions {
  const { system, messages, tools = [], toolChoice, outputSchema, maxOutputTokens, temperature } = request;
  const instructions: Prompt = system === undefined ? [] : [{ role: "system", content: system }];
  return {
    prompt: [...instructions, ...messages.map((message) => toPromptMessage(message, names))],
    ...omitUndefined({ maxOutputTokens, temperature }),
    ...(outputSchema === undefined ? {} : { responseFormat: { type: "json", schema: outputSchema } }),
    ...(tools.length === 0
      ? {}
      : {
          tools: tools.map(({ name, description, inputSchema }) => {
            return { type: "function", name: names.toWire(name), description, inputSchema };
          }),
          toolChoice: toToolChoice(toolChoice ?? "auto", names),
        }),
  } as CallOptions;
}

const toToolChoice = (choice: NonNullable<ModelRequest["toolChoice"]>, names: WireNames) =>
  typeof choice === "string" ? { type: choice } : { type: "tool", toolName: names.toWire(choice.tool) };

function toPromptMessage(message: ModelMessage, names: WireNames): Prompt[number] {
  if (message.role === "user") return { role: "user", content: [{ type: "text", text: message.text }] };
  if (message.role === "assistant") {
    const { text, toolCalls, raw } = message;
    if (Array.isArray(raw)) return { role: "assistant", content: raw as unknown as AssistantPart[] };
    const parts = toolCalls.map(({ id, name, args }) => toCallPart(id, names.toWire(name), args));
    return { role: "assistant", content: [...(text === "" ? [] : [{ type: "text" as const, text }]), ...parts] };
  }
  const content = message.results.map(({ id, name, text }) => ({
    type: "tool-result" as const,
    toolCallId: id,
    toolName: names.toWire(name),
    output: { type: "text" as const, value: text },
  }));
  return { role: "tool", content };
}

/** Providers take only objects as arguments, so others are put into one. */
const toCallPart = (toolCallId: string, toolName: string, args: unknown) => ({
  type: "tool-call" as const,
  toolCallId,
  toolName,
  input: isRecord(args) ? args : { arguments: args },
});

function toModelAnswer(
  { content, finishReason, usage }: Pick<GeneratedAnswer, "content" | "finishReason" | "usage">,
  request: ModelRequest,
  names: WireNames,
  attempts: number,
): ModelAnswer {
  const text = content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("");
  const toolCalls = content.flatMap((part): ModelToolCall[] => {
    if (part.type !== "tool-call") return [];
    return [
      {
        id: part.toolCallId,
        name: names.fromWire(part.toolName) ?? part.toolName,
        args: parseToolInput(part.input),
      },
    ];
  });
  return {
    message: { role: "assistant", text, toolCalls, ...toRawParts(content) },
    finish: finishReason.unified,
    inputTokens: usage.inputTokens.total ?? estimateTokens(request),
    outputTokens: usage.outputTokens.total ?? estimateTokens([text, toolCalls]),
    attempts,
  };
}

/** As a provider needs the answer back. Absent if the text and the calls are all there is. */
function toRawParts(content: GeneratedAnswer["content"]): { readonly raw?: Json } {
  const parts = content.flatMap((part): AssistantPart[] => {
    const providerOptions = "providerMetadata" in part ? omitUndefined({ providerOptions: part.providerMetadata }) : {};
    if (part.type === "text" || part.type === "reasoning")
      return part.text === "" && part.type === "text" ? [] : [{ type: part.type, text: part.text, ...providerOptions }];
    if (part.type !== "tool-call") return [];
    return [{ ...toCallPart(part.toolCallId, part.toolName, parseToolInput(part.input)), ...providerOptions }];
  });
  const isPlain = parts.every((part) => part.type !== "reasoning" && part.providerOptions === undefined);
  return isPlain ? {} : { raw: JSON.parse(JSON.stringify(parts)) as Json };
}

/** The arguments that a model wrote. Text that is not JSON stays as it is: the call is then refused with a reason. */
function parseToolInput(input: unknown): unknown {
  if (typeof input !== "string") return input;
  if (input.trim() === "") return {};
  try {
    return JSON.parse(input);
  } catch {
    return input;
  }
}

/** For servers that report no usage: a budget must not be free for them. */
const estimateTokens = (value: unknown): number => Math.ceil(JSON.stringify(value).length / 4);

/** A model of the host: ours, or one of the AI SDK. Throws `invalid_config`. */
export function toModel(name: string, given: Model | AiSdkModel): Model {
  if (!("doGenerate" in given)) return given;
  if (given.specificationVersion === "v3") return createAiSdkModel(given);
  const version = String((given as { specificationVersion?: unknown }).specificationVersion);
  const hint = "Use a provider package of the AI SDK 6.";
  throw new QmError("invalid_config", `options.models.${name}: a model of version ${version}, expected v3`, { hint });
}
