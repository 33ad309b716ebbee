import { setTimeout as pause } from "node:timers/promises";
import { fingerprint } from "../../core/action.ts";
import { withTimeout } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import { getOwn, isRecord } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import type { ChosenEmbedder, Embedder } from "./embedder.ts";
import { toUnitVectors } from "./embedder.ts";

/** Somebody else's server, and what it is paid with. */
interface EmbeddingEndpoint {
  readonly url: URL;
  readonly apiKey: string | undefined;
}

/** What it answered, or what went wrong and whether the same request may go right later. */
type PostResult =
  | { readonly answer: unknown }
  | { readonly failed: QmError; readonly again: boolean; readonly waitMs?: number };

const REQUEST_LIMIT_MS = 60_000;
const ANSWER_LIMIT = 64 * 2 ** 20;
const FAILURE_LIMIT = 64 * 2 ** 10;
const PIECE = 6;

/** Sends one request. What is told of a failure never holds the key, not even when the server says it back. */
async function postJson(endpoint: EmbeddingEndpoint, body: unknown, signal: AbortSignal): Promise<PostResult> {
  const late = (): QmError => endpointError(endpoint, `did not answer within ${REQUEST_LIMIT_MS / 1000} s`, SLOW_HINT);
  try {
    return await withTimeout({ ms: REQUEST_LIMIT_MS, timeoutError: late, signal }, (inner) =>
      attempt(endpoint, body, inner),
    );
  } catch (thrown) {
    if (signal.aborted) throw signal.reason;
    if (thrown instanceof QmError) return { failed: thrown, again: false };
    const why = readSystemCode(thrown);
    const hint = "See that it runs and can be reached from here, or correct the base URL.";
    return { failed: endpointError(endpoint, `cannot be reached${why === "" ? "" : ` (${why})`}`, hint), again: true };
  }
}

/** An `embedder_failed` that names the endpoint without what may be secret in its address. */
function endpointError({ url }: EmbeddingEndpoint, what: string, hint: string): QmError {
  return new QmError("embedder_failed", `the embedding endpoint ${url.origin}${url.pathname} ${what}`, { hint });
}

async function attempt(endpoint: EmbeddingEndpoint, body: unknown, signal: AbortSignal): Promise<PostResult> {
  const { url, apiKey } = endpoint;
  const response = await fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    },
    body: JSON.stringify(body),
    // Texts and key are for this server alone.
    redirect: "error",
    signal,
  });
  if (response.ok) return { answer: parseAnswer(endpoint, await readAnswer(endpoint, response)) };
  // As much as anybody would want to read.
  const { text } = await readUpTo(FAILURE_LIMIT, response);
  const { status } = response;
  const again = status === 429 || status >= 500;
  const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
  return {
    failed: endpointError(endpoint, `answered ${status}${quoteServerMessage(text, status, apiKey)}`, hintFor(status)),
    again,
    ...(seconds >= 0 ? { waitMs: seconds * 1000 } : {}),
  };
}

async function readAnswer(endpoint: EmbeddingEndpoint, response: Response): Promise<string> {
  const { text, isCut } = await readUpTo(ANSWER_LIMIT, response);
  if (isCut) throw endpointError(endpoint, `answered with more than ${ANSWER_LIMIT / 2 ** 20} MiB`, WRONG_API_HINT);
  return text;
}

async function readUpTo(
  limit: number,
  response: Response,
): Promise<{ readonly text: string; readonly isCut: boolean }> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > limit) break;
  }
  return { text: Buffer.concat(chunks).subarray(0, limit).toString("utf8"), isCut: size > limit };
}

function parseAnswer(endpoint: EmbeddingEndpoint, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw endpointError(endpoint, "did not answer with JSON", WRONG_API_HINT);
  }
}

const WRONG_API_HINT = "It must speak as OpenAI's /embeddings does: correct the base URL, or take another endpoint.";
const SLOW_HINT = "See whether it is overloaded; what was embedded so far is kept.";

function hintFor(status: number): string {
  if (status === 401 || status === 403) return "Give an API key that it takes for this model.";
  if (status === 404) return "Correct the base URL (up to and without /embeddings) or the model's name.";
  if (status === 429) return "It has had too many requests, or the account is used up. Try again later.";
  return status >= 500 ? "Try again later." : "Correct the model's name, its dimensions or the base URL.";
}

/** The server's own words, where they help. About a key it says too much: OpenAI's shows the ends of a wrong one. */
function quoteServerMessage(text: string, status: number, apiKey: string | undefined): string {
  const words = status === 401 || status === 403 ? undefined : extractMessage(text);
  // Also as it was sent: a key elsewhere in the answer is a reason to trust none of it.
  return words === undefined || containsKeyPiece(words, apiKey) || containsKeyPiece(text, apiKey)
    ? ""
    : `: ${quoteName(words)}`;
}

function extractMessage(text: string): string | undefined {
  try {
    const answer: unknown = JSON.parse(text);
    if (!isRecord(answer)) return undefined;
    const { error } = answer;
    const words = isRecord(error) ? error.message : (error ?? answer.message);
    return typeof words === "string" ? words : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a piece of the key is in a text, however it was cut or masked. */
function containsKeyPiece(text: string, apiKey: string | undefined): boolean {
  if (apiKey === undefined) return false;
  const length = Math.min(PIECE, apiKey.length);
  for (let at = 0; at + length <= apiKey.length; at++) if (text.includes(apiKey.slice(at, at + length))) return true;
  return false;
}

/** The system's word for it, such as ECONNREFUSED. Messages of the client can hold what it was given. */
function readSystemCode(thrown: unknown): string {
  const { cause } = isRecord(thrown) ? thrown : {};
  return isRecord(cause) && typeof cause.code === "string" ? cause.code : "";
}

/** An endpoint that speaks as OpenAI's does. The class stands for a model; everything can be set otherwise. */
export interface EndpointChoice {
  readonly class: "light" | "standard" | "strong";
  /** Up to and without `/embeddings`. */
  readonly baseUrl?: string;
  readonly model?: string;
  readonly apiKey?: string;
  readonly dimensions?: number;
}

interface EmbeddingModel {
  readonly model: string;
  readonly dimensions?: number;
}

const OPENAI = "https://api.openai.com/v1";
const models: Readonly<Record<EndpointChoice["class"], EmbeddingModel>> = {
  light: { model: "text-embedding-3-small", dimensions: 512 },
  standard: { model: "text-embedding-3-small" },
  strong: { model: "text-embedding-3-large" },
};

// What the smallest of the common servers take in one request.
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
      unavailable: "the base URL of the embedding endpoint is not one",
      hint: "Give it as http(s)://host/path, up to and without /embeddings, and without a user name or password.",
    };
  }
  const apiKey = key?.trim() || undefined;
  if (apiKey === undefined && baseUrl === OPENAI) {
    return {
      unavailable: `the embedder ${quoteName(choice.class)} has no API key for ${OPENAI}`,
      hint: "Give an API key, or the base URL of an endpoint that needs none.",
    };
  }
  if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey)) {
    return {
      unavailable: "the API key of the embedding endpoint has characters in it that cannot be sent",
      hint: "Copy the key again, without spaces or line breaks inside it.",
    };
  }
  return { embedder: createEndpointEmbedder({ url, apiKey }, resolveModel(choice)) };
}

function createEndpointEmbedder(endpoint: EmbeddingEndpoint, { model, dimensions }: EmbeddingModel): Embedder {
  const wanted = dimensions === undefined ? {} : { dimensions };

  async function request(texts: readonly string[], attempts: number, signal: AbortSignal) {
    for (let attempt = 1, wait = FIRST_PAUSE_MS; ; attempt++, wait *= 2) {
      const posted = await postJson(endpoint, { model, input: texts, ...wanted }, signal);
      if ("answer" in posted) return parseVectors(endpoint, posted.answer, texts.length, dimensions);
      if (!posted.again || attempt >= attempts) throw posted.failed;
      await pause(Math.min(posted.waitMs ?? wait, LONGEST_PAUSE_MS), undefined, { signal }).catch(() => {});
      signal.throwIfAborted();
    }
  }

  return {
    fingerprint: ["openai-compatible", model, ...Object.values(wanted), fingerprintUrl(endpoint)].join(":"),
    async embed(texts, purpose, signal) {
      const vectors: Float32Array[] = [];
      for (const batch of splitBatches(texts)) {
        vectors.push(...(await request(batch, purpose === "query" ? 1 : DOCUMENT_ATTEMPTS, signal)));
      }
      return vectors;
    },
  };
}

/** Servers call different models by the same name. Of the query nothing is told: it may hold a key. */
function fingerprintUrl({ url }: EmbeddingEndpoint): string {
  return fingerprint(url.origin + url.pathname).slice(0, 8);
}

/** A password in an address would be shown wherever the address is. */
function embeddingsUrl(baseUrl: string): URL | undefined {
  if (!URL.canParse(baseUrl)) return undefined;
  const url = new URL(baseUrl);
  if (!/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "") return undefined;
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/embeddings`;
  return url;
}

/** The dimensions of a class are those of its own model: another may not be able to shorten its vectors. */
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
    const hint = "Leave the dimensions out, or take a model that lets one choose them.";
    throw endpointError(endpoint, `answered with vectors of ${length} numbers, not of ${dimensions}`, hint);
  }
  return read.vectors;
}

/** By the index that each vector has. What lacks one, or shares it, leaves a gap that is refused as no vector. */
function sortByIndex(list: readonly unknown[]): readonly unknown[] {
  const vectors: unknown[] = Array.from({ length: list.length });
  for (const item of list) {
    if (isRecord(item) && Number.isInteger(item.index)) vectors[item.index as number] = item.embedding;
  }
  return vectors;
}
