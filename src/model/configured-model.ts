import { getErrorMessage, QmError } from "../core/errors.ts";
import { omitUndefined } from "../core/json.ts";
import { isLoopback } from "../core/loopback.ts";
import type { Model, ModelPrice } from "../core/model.ts";
import { readUpTo } from "../core/server-answer.ts";
import { type AiSdkModel, generateWithModel } from "./ai-sdk-model.ts";
import type { ModelLimits } from "./attempts.ts";
import { createInvalidAnswerError } from "./model-failure.ts";

export interface ModelSettings extends Partial<ModelLimits> {
  readonly provider: "openai-compatible" | "anthropic";
  /** As the provider names it. */
  readonly model: string;
  readonly price?: ModelPrice;
  /** The most tokens of an answer. A request can only ask for fewer. */
  readonly maxOutputTokens?: number;
  /** For `openai-compatible`: whether the server takes a JSON Schema for its answer. Default: true. */
  readonly structuredOutputs?: boolean;
}

/** The address for requests, without `/chat/completions` or `/messages`, and the key. */
export type ModelEndpoint = { readonly baseUrl?: string | undefined; readonly apiKey?: string | undefined };

const DEFAULT_URLS: Readonly<Record<ModelSettings["provider"], string>> = {
  "openai-compatible": "https://api.openai.com/v1",
  anthropic: "https://api.anthropic.com/v1",
};

/**
 * Creates a model from its configuration. `readEndpoint` is called for each request, so that a key stored later counts; it
 * throws `invalid_config` when a reference has no value. The provider's package is loaded with the first request.
 */
export function createConfiguredModel(settings: ModelSettings, readEndpoint: () => ModelEndpoint): Model {
  const { model: name, price, timeoutMs, retries, maxOutputTokens = Number.POSITIVE_INFINITY } = settings;
  const resolveEndpoint = () => checkEndpoint(readEndpoint(), settings);
  return {
    name,
    ...omitUndefined({ price }),
    findProblem() {
      try {
        resolveEndpoint();
        return undefined;
      } catch (thrown) {
        return getErrorMessage(thrown);
      }
    },
    async generate(request, signal, onText) {
      const endpoint = resolveEndpoint();
      const model = await loadModel(settings, endpoint);
      const most = Math.min(request.maxOutputTokens ?? Number.POSITIVE_INFINITY, maxOutputTokens);
      const limited = Number.isFinite(most) ? { ...request, maxOutputTokens: most } : request;
      const { apiKey } = endpoint;
      const limits = omitUndefined({ timeoutMs, retries });
      return generateWithModel(model, limited, { name, apiKey, signal, onText, ...limits });
    },
  };
}

type CheckedEndpoint = { readonly baseUrl: string; readonly apiKey: string | undefined };

/** Throws `invalid_config`. No message contains the key or the URL, which could hold one. */
function checkEndpoint({ baseUrl: given, apiKey: key }: ModelEndpoint, { provider }: ModelSettings): CheckedEndpoint {
  const baseUrl = (given ?? DEFAULT_URLS[provider]).replace(/\/+$/, "");
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash)
    throw new QmError("invalid_config", "the base_url of the model is not valid", {
      hint: "Write it as https://host/path, without a user name, a password, ? and #.",
    });
  const apiKey = key?.trim() || undefined;
  if (apiKey === undefined && given === undefined)
    throw new QmError("invalid_config", `the model has no api_key for ${DEFAULT_URLS[provider]}`, {
      hint: "Set an api_key, or the base_url of a server that needs none.",
    });
  // The error of the HTTP client would show such a key.
  if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey))
    throw new QmError("invalid_config", "the api_key of the model has characters that cannot be sent", {
      hint: "Copy the key again, without spaces or line breaks.",
    });
  if (apiKey !== undefined && url.protocol === "http:" && !isLoopback(url))
    throw new QmError("invalid_config", "the api_key of the model would be sent unencrypted over http", {
      hint: "Use https in base_url, or leave out the api_key.",
    });
  return { baseUrl, apiKey };
}

async function loadModel(settings: ModelSettings, { baseUrl, apiKey }: CheckedEndpoint): Promise<AiSdkModel> {
  const { provider, model, structuredOutputs = true } = settings;
  const fetch = createBoundedFetch(model);
  if (provider === "anthropic") {
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    // Without a key the package would use one of the environment, which may be meant for another server.
    return createAnthropic({ baseURL: baseUrl, apiKey: apiKey ?? "", fetch })(model);
  }
  const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
  const options = { name: "model", baseURL: baseUrl, fetch, supportsStructuredOutputs: structuredOutputs };
  const isOpenAi = baseUrl === DEFAULT_URLS[provider];
  return createOpenAICompatible({
    ...options,
    // Otherwise most servers report no tokens of a streamed answer.
    includeUsage: true,
    ...omitUndefined({ apiKey }),
    transformRequestBody: (body) => adaptRequestBody(body, isOpenAi),
  })(model);
}

function adaptRequestBody(body: Record<string, unknown>, isOpenAi: boolean): Record<string, unknown> {
  const { max_tokens, response_format: format, ...rest } = body as OpenAiBody;
  // Strict mode refuses most schemas that are valid otherwise.
  const loose = format?.json_schema && { ...format, json_schema: { ...format.json_schema, strict: false } };
  // OpenAI's newer models refuse `max_tokens`; other servers know nothing else.
  const limit = isOpenAi ? { max_completion_tokens: max_tokens } : { max_tokens };
  return { ...rest, ...limit, response_format: loose ?? format };
}

interface OpenAiBody extends Record<string, unknown> {
  readonly max_tokens?: number;
  readonly response_format?: { readonly json_schema?: Readonly<Record<string, unknown>> };
}

const ANSWER_LIMIT = 4 * 2 ** 20;
const FAILURE_LIMIT = 64 * 2 ** 10;

/** Reads an answer only up to a limit, and follows no redirect: the key would go to another server. */
function createBoundedFetch(name: string): typeof fetch {
  return async (input, init) => {
    const response = await fetch(input, { ...init, redirect: "manual" });
    const { ok, status, headers, body } = response;
    if (ok && body !== null && headers.get("content-type")?.startsWith("text/event-stream"))
      return new Response(body.pipeThrough(createByteLimit(name)), { status, headers });
    const { text, isCut } = await readUpTo(ok ? ANSWER_LIMIT : FAILURE_LIMIT, response);
    if (ok && isCut) throw createTooLongError(name);
    return new Response(text, { status, headers });
  };
}

function createByteLimit(name: string): TransformStream<Uint8Array, Uint8Array> {
  let size = 0;
  return new TransformStream({
    transform(chunk, controller) {
      size += chunk.length;
      if (size > ANSWER_LIMIT) controller.error(createTooLongError(name));
      else controller.enqueue(chunk);
    },
  });
}

const createTooLongError = (name: string) =>
  createInvalidAnswerError({ name }, `answered with more than ${ANSWER_LIMIT / 2 ** 20} MiB`);
