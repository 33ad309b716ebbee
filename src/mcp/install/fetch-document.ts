import { onAbort, withTimeout } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import { isRecord } from "../../core/json.ts";
import { isLoopback } from "../../core/loopback.ts";
import { quoteName } from "../../core/names.ts";
import { createInputError } from "./input-error.ts";

export type Fetch = typeof globalThis.fetch;

const UNREACHABLE_HINT = "Check the connection and the URL.";

export interface HttpLimits {
  readonly fetch: Fetch;
  /** The name used in errors: `the registry`. */
  readonly what: string;
  readonly timeoutMs: number;
  /** The size limit of the unpacked response. */
  readonly bytes: number;
  /** Which redirects to follow. `https`: to any host, for content that is checked against a hash. */
  readonly redirects: "same-origin" | "https";
}

export type HttpDocument = { readonly status: number; readonly bytes: Buffer };

/**
 * Fetches one document within a time and size limit. Every status except a redirect is a response. Throws
 * `registry_failed` for everything else, or the signal's reason.
 */
export async function fetchDocument(url: URL, limits: HttpLimits, signal?: AbortSignal): Promise<HttpDocument> {
  const { timeoutMs: ms } = limits;
  const timeoutError = () => createFetchError(url, limits, `did not answer within ${ms / 1000} s`, "Try again later.");
  // Stops what is still running at the end, such as the rest of an oversized response.
  const rest = new AbortController();
  try {
    return await withTimeout({ ms, signal, timeoutError }, (inner) => {
      onAbort(inner, () => rest.abort());
      return followRedirects(url, limits, rest.signal);
    });
  } catch (thrown) {
    signal?.throwIfAborted();
    if (thrown instanceof QmError) throw thrown;
    const why = readCauseCode(thrown);
    throw createFetchError(url, limits, `cannot be reached${why === "" ? "" : ` (${why})`}`, UNREACHABLE_HINT);
  } finally {
    rest.abort();
  }
}

/** Throws `registry_failed` if the body is not JSON. */
export function parseJsonDocument(url: URL, { what }: Pick<HttpLimits, "what">, { bytes }: HttpDocument): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    throw createFetchError(url, { what }, "did not answer with JSON", "Check the URL.");
  }
}

/** The message of an error response, as `{error}` or problem+json. */
export function readErrorMessage({ bytes }: HttpDocument): string | undefined {
  try {
    const body: unknown = JSON.parse(bytes.toString("utf8"));
    if (!isRecord(body)) return undefined;
    const words = [body.error, body.detail, body.title, body.message].find((word) => typeof word === "string");
    return typeof words === "string" && words !== "" ? words : undefined;
  } catch {
    return undefined;
  }
}

export function createStatusError(url: URL, limits: Pick<HttpLimits, "what">, answer: HttpDocument): QmError {
  const words = readErrorMessage(answer);
  const hint = answer.status === 429 || answer.status >= 500 ? "Try again later." : "Check the URL.";
  const why = words === undefined ? "" : `: ${quoteName(words)}`;
  return createFetchError(url, limits, `answered ${answer.status}${why}`, hint);
}

/** Accepts https, or http to this machine. Throws `invalid_arguments` and names `key`. */
export function requireSafeUrl(text: string, key: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && isAllowedUrl(url)) return url;
  // Omit the URL, which may contain a password.
  const what =
    url === undefined ? "is not a URL" : `${quoteName(`${url.protocol}//${url.host}${url.pathname}`)} is not allowed`;
  const hint = "Use an https URL without a user name. http is allowed only on this machine.";
  throw createInputError(`${key}: ${what}`, hint);
}

export function appendUrlPath(url: URL, path: string): URL {
  const longer = new URL(url);
  longer.pathname = `${url.pathname.replace(/\/+$/, "")}/${path}`;
  return longer;
}

function isAllowedUrl(url: URL): boolean {
  if (url.username !== "" || url.password !== "") return false;
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url));
}

async function followRedirects(from: URL, limits: HttpLimits, signal: AbortSignal): Promise<HttpDocument> {
  let url = from;
  const headers = { accept: "application/json, application/problem+json, */*;q=0.5" };
  for (let redirects = 0; redirects <= 5; redirects++) {
    const response = await limits.fetch(url, { redirect: "manual", headers, signal });
    const target = response.headers.get("location");
    if (response.status < 300 || response.status > 399 || target === null)
      return { status: response.status, bytes: await readAll(url, limits, response) };
    await response.body?.cancel();
    url = resolveRedirect(url, target, limits);
  }
  throw createFetchError(from, limits, "redirects too often", UNREACHABLE_HINT);
}

function resolveRedirect(from: URL, target: string, limits: HttpLimits): URL {
  const to = URL.canParse(target, from.href) ? new URL(target, from) : undefined;
  const isHttps = limits.redirects === "https" && to?.protocol === "https:" && isAllowedUrl(to);
  if (to !== undefined && (to.origin === from.origin || isHttps)) return to;
  const where = to === undefined ? "nowhere" : `to ${to.origin}`;
  throw createFetchError(from, limits, `redirects ${where}, which is not followed`, "Use its current URL.");
}

async function readAll(url: URL, limits: HttpLimits, response: Response): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > limits.bytes) {
      const most = limits.bytes < 2 ** 20 ? `${limits.bytes} bytes` : `${Math.floor(limits.bytes / 2 ** 20)} MiB`;
      throw createFetchError(url, limits, `answered with more than ${most}`, "Check the URL.");
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Omits the query, so that search terms are not shown. */
function createFetchError(url: URL, { what }: Pick<HttpLimits, "what">, words: string, hint: string): QmError {
  return new QmError("registry_failed", `${what} at ${url.origin}${url.pathname} ${words}`, { hint });
}

/** The system's error code, such as ECONNREFUSED. */
function readCauseCode(thrown: unknown): string {
  const { cause } = isRecord(thrown) ? thrown : {};
  return isRecord(cause) && typeof cause.code === "string" ? cause.code : "";
}
