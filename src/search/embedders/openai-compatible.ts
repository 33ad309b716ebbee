import { setTimeout as pause } from "node:timers/promises";
import { fingerprint } from "../../core/action.ts";
import { withTimeout } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import { getOwn, isRecord } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { quoteServerMessage, readUpTo } from "../../core/server-answer.ts";
import { type ChosenEmbedder, type Embedder, toUnitVectors } from "./embedder.ts";

type EmbeddingEndpoint = { readonly url: URL; readonly apiKey: string | undefined };

type PostResult =
  | { readonly answer: unknown }
  | { readonly failed: QmError; readonly canRetry: boolean; readonly waitMs?: number };

/** An OpenAI-compatible endpoint. The class sets the defaults. */
export interface EndpointChoice {
  readonly class: "light" | "standard" | "strong";
  /** Without `/embeddings`. */
  readonly baseUrl?: string;
  readonly model?: string;
  readonly apiKey?: string;
  readonly dimensions?: number;
}

type EmbeddingModel = { readonly model: string; readonly dimensions?: number };

const OPENAI = "https://api.openai.com/v1";
const models: Readonly<Record<EndpointChoice["class"], EmbeddingModel>> = {
  light: { model: "text-embedding-3-small", dimensions: 512 },
  standard: { model: "text-embedding-3-small" },
  strong: { model: "text-embedding-3-large" },
};

// The request limits of the smallest common servers.
const BATCH_TEXTS = 32;
const BATCH_CHARACTERS = 40_000;
const DOCUMENT_ATTEMPTS = 4;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;

export function createOpenAiEmbedder(choice: EndpointChoice): ChosenEmbedder {
  const { baseUrl = OPENAI, apiKey: key } = choice;
  const url = embeddingsUrl(baseUrl);
  if (url === undefined) {
    return {
      unavailable: "the base URL of the embedding endpoint is not valid",
      hint: "Write it as http(s)://host/path, without /embeddings, and without a user name or password.",
    };
  }
  const apiKey = key?.trim() || undefined;
  if (apiKey === undefined && baseUrl === OPENAI) {
    return {
      unavailable: `the embedder ${quoteName(choice.class)} has no API key for ${OPENAI}`,
      hint: "Set an API key, or the base URL of an endpoint that needs none.",
    };
  }
  if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey)) {
    return {
      unavailable: "the API key of the embedding endpoint has characters that cannot be sent",
      hint: "Copy the key again, without spaces or line breaks.",
    };
  }
  return { embedder: createEndpointEmbedder({ url, apiKey }, resolveModel(choice)) };
}

function createEndpointEmbedder(endpoint: EmbeddingEndpoint, { model, dimensions }: EmbeddingModel): Embedder {
  const wanted = dimensions === undefined ? {} : { dimensions };
  const { origin, pathname } = endpoint.url;
  // Servers use the same name for different models. The query of the URL is left out: it may hold a key.
  const server = fingerprint(origin + pathname).slice(0, 8);

  async function request(texts: readonly string[], attempts: number, signal: AbortSignal) {
    for (let attempt = 1, wait = FIRST_PAUSE_MS; ; attempt++, wait *= 2) {
      const posted = await postJson(endpoint, { model, input: texts, ...wanted }, signal);
      if ("answer" in posted) return parseVectors(endpoint, posted.answer, texts.length, dimensions);
      if (!posted.canRetry || attempt >= attempts) throw posted.failed;
      await pause(Math.min(posted.waitMs ?? wait, LONGEST_PAUSE_MS), undefined, { signal }).catch(() => {});
      signal.throwIfAborted();
    }
  }

  return {
    fingerprint: ["openai-compatible", model, ...Object.values(wanted), server].join(":"),
    async embed(texts, purpose, signal) {
      const vectors: Float32Array[] = [];
      for (const batch of splitBatches(texts)) {
        vectors.push(...(await request(batch, purpose === "query" ? 1 : DOCUMENT_ATTEMPTS, signal)));
      }
      return vectors;
    },
  };
}

/** Refuses a password in the URL: it would be shown wherever the URL is. */
function embeddingsUrl(baseUrl: string): URL | undefined {
  if (!URL.canParse(baseUrl)) return undefined;
  const url = new URL(baseUrl);
  if (!/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "") return undefined;
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/embeddings`;
  return url;
}

/** The default dimensions hold only for the default model: another may not support them. */
function resolveModel({ class: name, model, dimensions }: EndpointChoice): EmbeddingModel {
  const base = model === undefined ? models[name] : { model };
  return dimensions === undefined ? base : { ...base, dimensions };
}

function* splitBatches(texts: readonly string[]): Generator<readonly string[]> {
  let batch: string[] = [];
  let characters = 0;
  for (const text of texts) {
    if (batch.length === BATCH_TEXTS || (batch.length > 0 && characters + text.length > BATCH_CHARACTERS)) {
      yield batch;
      batch = [];
      characters = 0;
    }
    batch.push(text);
    characters += text.length;
  }
  if (batch.length > 0) yield batch;
}

function parseVectors(endpoint: EmbeddingEndpoint, answer: unknown, count: number, dimensions: number | undefined) {
  const list = isRecord(answer) ? getOwn(answer, "data") : undefined;
  if (!Array.isArray(list)) throw endpointError(endpoint, "did not answer with a list of vectors", WRONG_API_HINT);
  const read = toUnitVectors(sortByIndex(list), count);
  if ("problem" in read) throw endpointError(endpoint, `answered with ${read.problem}`, WRONG_API_HINT);
  const length = read.vectors[0]?.length;
  if (dimensions !== undefined && length !== dimensions) {
    const hint = "Remove the dimensions, or use a model that supports them.";
    throw endpointError(endpoint, `answered with vectors of ${length} numbers, not of ${dimensions}`, hint);
  }
  return read.vectors;
}

/** A missing or repeated index leaves a gap, which is refused as an invalid vector. */
function sortByIndex(list: readonly unknown[]): readonly unknown[] {
  const vectors: unknown[] = Array.from({ length: list.length });
  for (const item of list) {
    if (isRecord(item) && Number.isInteger(item.index)) vectors[item.index as number] = item.embedding;
  }
  return vectors;
}

const REQUEST_LIMIT_MS = 60_000;
const ANSWER_LIMIT = 64 * 2 ** 20;
const FAILURE_LIMIT = 64 * 2 ** 10;

/** Sends one request. Errors never contain the key, even if the server echoes it. */
async function postJson(endpoint: EmbeddingEndpoint, body: unknown, signal: AbortSignal): Promise<PostResult> {
  const slow = `did not answer within ${REQUEST_LIMIT_MS / 1000} s`;
  const timeoutError = (): QmError => endpointError(endpoint, slow, SLOW_HINT);
  try {
    return await withTimeout({ ms: REQUEST_LIMIT_MS, timeoutError, signal }, (inner) => attempt(endpoint, body, inner));
  } catch (thrown) {
    if (signal.aborted) throw signal.reason;
    if (thrown instanceof QmError) return { failed: thrown, canRetry: false };
    const code = readSystemCode(thrown);
    const hint = "Check that it runs and can be reached from here, or correct the base URL.";
    const what = code === undefined ? "cannot be reached" : `cannot be reached (${code})`;
    return { failed: endpointError(endpoint, what, hint), canRetry: true };
  }
}

/** Names the endpoint without the query of its URL, which may hold a key. */
const endpointError = ({ url }: EmbeddingEndpoint, what: string, hint: string): QmError =>
  new QmError("embedder_failed", `the embedding endpoint ${url.origin}${url.pathname} ${what}`, { hint });

async function attempt(endpoint: EmbeddingEndpoint, body: unknown, signal: AbortSignal): Promise<PostResult> {
  const { url, apiKey } = endpoint;
  const authorization = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...authorization },
    body: JSON.stringify(body),
    // A redirect would send the texts and the key to another server.
    redirect: "error",
    signal,
  });
  const { ok, status, headers } = response;
  const { text, isCut } = await readUpTo(ok ? ANSWER_LIMIT : FAILURE_LIMIT, response);
  if (ok) {
    if (isCut) throw endpointError(endpoint, `answered with more than ${ANSWER_LIMIT / 2 ** 20} MiB`, WRONG_API_HINT);
    return { answer: parseAnswer(endpoint, text) };
  }
  const what = `answered ${status}${quoteServerMessage(text, status, apiKey)}`;
  const failed = endpointError(endpoint, what, getHint(status));
  const seconds = Number(headers.get("retry-after") ?? Number.NaN);
  const wait = seconds >= 0 ? { waitMs: seconds * 1000 } : {};
  return { failed, canRetry: status === 429 || status >= 500, ...wait };
}

function parseAnswer(endpoint: EmbeddingEndpoint, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw endpointError(endpoint, "did not answer with JSON", WRONG_API_HINT);
  }
}

const WRONG_API_HINT =
  "It must be compatible with OpenAI's /embeddings. Correct the base URL, or use another endpoint.";
const SLOW_HINT = "It may be overloaded. The vectors made so far are kept. Try again later.";

function getHint(status: number): string {
  if (status === 401 || status === 403) return "Set an API key that is valid for this model.";
  if (status === 404) return "Correct the base URL (without /embeddings) or the name of the model.";
  if (status === 429) return "There were too many requests, or the account has no credit. Try again later.";
  return status >= 500 ? "Try again later." : "Correct the name of the model, its dimensions or the base URL.";
}

/** A system code such as ECONNREFUSED. The message of the client could contain the key. */
function readSystemCode(thrown: unknown): string | undefined {
  const { cause } = isRecord(thrown) ? thrown : {};
  return isRecord(cause) && typeof cause.code === "string" && cause.code !== "" ? cause.code : undefined;
}
