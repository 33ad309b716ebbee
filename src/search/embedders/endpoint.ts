import { withTimeout } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import { isRecord } from "../../core/json.ts";
import { quoted } from "../../core/names.ts";

/** Somebody else's server, and what it is paid with. */
export interface Endpoint {
  readonly url: URL;
  readonly apiKey: string | undefined;
}

/** What it answered, or what went wrong and whether the same request may go right later. */
export type Posted =
  | { readonly answer: unknown }
  | { readonly failed: QmError; readonly again: boolean; readonly waitMs?: number };

const REQUEST_LIMIT_MS = 60_000;
const ANSWER_LIMIT = 64 * 2 ** 20;
const FAILURE_LIMIT = 64 * 2 ** 10;
const PIECE = 6;

/** Sends one request. What is told of a failure never holds the key, not even when the server says it back. */
export async function post(endpoint: Endpoint, body: unknown, signal: AbortSignal): Promise<Posted> {
  const late = (): QmError => failure(endpoint, `did not answer within ${REQUEST_LIMIT_MS / 1000} s`, SLOW);
  try {
    return await withTimeout({ ms: REQUEST_LIMIT_MS, timeoutError: late, signal }, (inner) =>
      attempt(endpoint, body, inner),
    );
  } catch (thrown) {
    if (signal.aborted) throw signal.reason;
    if (thrown instanceof QmError) return { failed: thrown, again: false };
    const why = reasonOf(thrown);
    const hint = "See that it runs and can be reached from here, or correct the base URL.";
    return { failed: failure(endpoint, `cannot be reached${why === "" ? "" : ` (${why})`}`, hint), again: true };
  }
}

/** An `embedder_failed` that names the endpoint without what may be secret in its address. */
export function failure({ url }: Endpoint, what: string, hint: string): QmError {
  return new QmError("embedder_failed", `the embedding endpoint ${url.origin}${url.pathname} ${what}`, { hint });
}

async function attempt(endpoint: Endpoint, body: unknown, signal: AbortSignal): Promise<Posted> {
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
  if (response.ok) return { answer: parsed(endpoint, await readAnswer(endpoint, response)) };
  // As much as anybody would want to read.
  const { text } = await readUpTo(FAILURE_LIMIT, response);
  const { status } = response;
  const again = status === 429 || status >= 500;
  const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
  return {
    failed: failure(endpoint, `answered ${status}${said(text, status, apiKey)}`, hintFor(status)),
    again,
    ...(seconds >= 0 ? { waitMs: seconds * 1000 } : {}),
  };
}

async function readAnswer(endpoint: Endpoint, response: Response): Promise<string> {
  const { text, isCut } = await readUpTo(ANSWER_LIMIT, response);
  if (isCut) throw failure(endpoint, `answered with more than ${ANSWER_LIMIT / 2 ** 20} MiB`, FOREIGN);
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

function parsed(endpoint: Endpoint, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw failure(endpoint, "did not answer with JSON", FOREIGN);
  }
}

export const FOREIGN = "It must speak as OpenAI's /embeddings does: correct the base URL, or take another endpoint.";
const SLOW = "See whether it is overloaded; what was embedded so far is kept.";

function hintFor(status: number): string {
  if (status === 401 || status === 403) return "Give an API key that it takes for this model.";
  if (status === 404) return "Correct the base URL (up to and without /embeddings) or the model's name.";
  if (status === 429) return "It has had too many requests, or the account is used up. Try again later.";
  return status >= 500 ? "Try again later." : "Correct the model's name, its dimensions or the base URL.";
}

/** The server's own words, where they help. About a key it says too much: OpenAI's shows the ends of a wrong one. */
function said(text: string, status: number, apiKey: string | undefined): string {
  const words = status === 401 || status === 403 ? undefined : wordsIn(text);
  // Also as it was sent: a key elsewhere in the answer is a reason to trust none of it.
  return words === undefined || tells(words, apiKey) || tells(text, apiKey) ? "" : `: ${quoted(words)}`;
}

function wordsIn(text: string): string | undefined {
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
function tells(text: string, apiKey: string | undefined): boolean {
  if (apiKey === undefined) return false;
  const length = Math.min(PIECE, apiKey.length);
  for (let at = 0; at + length <= apiKey.length; at++) if (text.includes(apiKey.slice(at, at + length))) return true;
  return false;
}

/** The system's word for it, such as ECONNREFUSED. Messages of the client can hold what it was given. */
function reasonOf(thrown: unknown): string {
  const { cause } = isRecord(thrown) ? thrown : {};
  return isRecord(cause) && typeof cause.code === "string" ? cause.code : "";
}
