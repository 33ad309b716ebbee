import { setTimeout as pause } from "node:timers/promises";
import { fingerprint } from "../../core/definition.ts";
import { getOwn, isRecord } from "../../core/json.ts";
import { quoted } from "../../core/names.ts";
import type { ChosenEmbedder, Embedder } from "./embedder.ts";
import { type Endpoint, FOREIGN, failure, post } from "./endpoint.ts";
import { unitVectors } from "./unit-vectors.ts";

/** An endpoint that speaks as OpenAI's does. The class stands for a model; everything can be set otherwise. */
export interface EndpointChoice {
  readonly class: "light" | "standard" | "strong";
  /** Up to and without `/embeddings`. */
  readonly baseUrl?: string;
  readonly model?: string;
  readonly apiKey?: string;
  readonly dimensions?: number;
}

interface Model {
  readonly model: string;
  readonly dimensions?: number;
}

const OPENAI = "https://api.openai.com/v1";
const models: Readonly<Record<EndpointChoice["class"], Model>> = {
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

export function openAiCompatible(choice: EndpointChoice): ChosenEmbedder {
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
      unavailable: `the embedder ${quoted(choice.class)} has no API key for ${OPENAI}`,
      hint: "Give an API key, or the base URL of an endpoint that needs none.",
    };
  }
  if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey)) {
    return {
      unavailable: "the API key of the embedding endpoint has characters in it that cannot be sent",
      hint: "Copy the key again, without spaces or line breaks inside it.",
    };
  }
  return { embedder: embedderAt({ url, apiKey }, modelOf(choice)) };
}

function embedderAt(endpoint: Endpoint, { model, dimensions }: Model): Embedder {
  const wanted = dimensions === undefined ? {} : { dimensions };

  async function request(texts: readonly string[], attempts: number, signal: AbortSignal) {
    for (let attempt = 1, wait = FIRST_PAUSE_MS; ; attempt++, wait *= 2) {
      const posted = await post(endpoint, { model, input: texts, ...wanted }, signal);
      if ("answer" in posted) return vectorsIn(endpoint, posted.answer, texts.length, dimensions);
      if (!posted.again || attempt >= attempts) throw posted.failed;
      await pause(Math.min(posted.waitMs ?? wait, LONGEST_PAUSE_MS), undefined, { signal }).catch(() => {});
      signal.throwIfAborted();
    }
  }

  return {
    fingerprint: ["openai-compatible", model, ...Object.values(wanted), placeOf(endpoint)].join(":"),
    async embed(texts, purpose, signal) {
      const vectors: Float32Array[] = [];
      for (const batch of batches(texts)) {
        vectors.push(...(await request(batch, purpose === "query" ? 1 : DOCUMENT_ATTEMPTS, signal)));
      }
      return vectors;
    },
  };
}

/** Servers call different models by the same name. Of the query nothing is told: it may hold a key. */
function placeOf({ url }: Endpoint): string {
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
function modelOf({ class: name, model, dimensions }: EndpointChoice): Model {
  const base = model === undefined ? models[name] : { model };
  return dimensions === undefined ? base : { ...base, dimensions };
}

function* batches(texts: readonly string[]): Generator<readonly string[]> {
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

function vectorsIn(endpoint: Endpoint, answer: unknown, count: number, dimensions: number | undefined) {
  const list = isRecord(answer) ? getOwn(answer, "data") : undefined;
  if (!Array.isArray(list)) throw failure(endpoint, "did not answer with a list of vectors", FOREIGN);
  const read = unitVectors(inOrder(list), count);
  if ("problem" in read) throw failure(endpoint, `answered with ${read.problem}`, FOREIGN);
  const length = read.vectors[0]?.length;
  if (dimensions !== undefined && length !== dimensions) {
    const hint = "Leave the dimensions out, or take a model that lets one choose them.";
    throw failure(endpoint, `answered with vectors of ${length} numbers, not of ${dimensions}`, hint);
  }
  return read.vectors;
}

/** By the index that each vector has. What lacks one, or shares it, leaves a gap that is refused as no vector. */
function inOrder(list: readonly unknown[]): readonly unknown[] {
  const vectors: unknown[] = Array.from({ length: list.length });
  for (const item of list) {
    if (isRecord(item) && Number.isInteger(item.index)) vectors[item.index as number] = item.embedding;
  }
  return vectors;
}
