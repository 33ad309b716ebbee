import { QmError } from "../../core/errors.ts";
import { isLoopback } from "../../core/loopback.ts";
import { quoteName } from "../../core/names.ts";
import { createAnswerLimit } from "./answer-limit.ts";

/** The bytes of one answer, or of one whole stream. */
export const ANSWER_LIMIT = 4 * 1024 * 1024;
/** The values in one answer, or in one event of a stream. */
const ANSWER_VALUES = 50_000;

/** The address of a peer and the headers for it. Read for each call, so that a secret stored later counts. */
export interface PeerEndpoint {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
}

/** Throws `invalid_config`. */
export function parsePeerUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !["http:", "https:"].includes(url.protocol))
    throw new QmError("invalid_config", "its url is not an http or https URL");
  if (url.protocol === "http:" && !isLoopback(url))
    throw new QmError("invalid_config", "its url must begin with https, because others could read what is sent");
  return url;
}

/**
 * A `fetch` for one peer: it sends the peer's headers to the configured origin only, follows no redirect, and reads at most
 * `ANSWER_LIMIT` bytes. Throws `server_failed`, `needs_login` and `too_large`.
 */
export function createPeerFetch(peer: string, { url: { origin }, headers }: PeerEndpoint): typeof fetch {
  return async (input, init = {}) => {
    const address = new URL(input instanceof Request ? input.url : input);
    if (address.origin !== origin) throw createPeerError(peer, `it points to ${quoteName(address.origin)}`);
    const sent = new Headers(init.headers);
    for (const [name, value] of Object.entries(headers)) sent.set(name, value);
    const response = await fetch(address, { ...init, headers: sent, redirect: "manual" }).catch((thrown: unknown) => {
      throw init.signal?.aborted ? init.signal.reason : createPeerError(peer, describeNetworkError(thrown));
    });
    try {
      return await limitResponse(peer, response);
    } catch (thrown) {
      await response.body?.cancel().catch(() => {});
      throw init.signal?.aborted ? init.signal.reason : thrown;
    }
  };
}

async function limitResponse(peer: string, response: Response): Promise<Response> {
  const { status } = response;
  if (status === 401 || status === 403) throw createLoginError(peer, status);
  if (status >= 300 && status < 400 && status !== 304) {
    const hint = "An operator must configure the address that it redirects to.";
    throw createPeerError(peer, `it redirects to ${quoteName(response.headers.get("location") ?? "nowhere")}`, hint);
  }
  if (status === 429 || status >= 500) throw createPeerError(peer, `it answered ${status}`);
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
  const copy = { status, headers: response.headers };
  if (response.body === null) return new Response(null, copy);
  const limits = { bytes: ANSWER_LIMIT, values: ANSWER_VALUES, isStream: response.ok && isStream };
  const body = response.body.pipeThrough(createAnswerLimit(limits, (what) => createTooLargeError(peer, what)));
  if (limits.isStream) return new Response(body, copy);
  const text = await new Response(body).text();
  return new Response(status === 204 || status === 304 ? null : text, copy);
}

export function createPeerError(peer: string, why: string, hint = "Try again later, or do without it."): QmError {
  return new QmError("server_failed", `the peer ${peer} cannot be used: ${why}`, { hint, details: { peer } });
}

function createLoginError(peer: string, status: number): QmError {
  const hint = `An operator must correct peers.${peer}.token.`;
  return new QmError("needs_login", `the peer ${peer} refused our token with ${status}`, { hint, details: { peer } });
}

function createTooLargeError(peer: string, what: string): QmError {
  const message = `the answer of the peer ${peer} has more than ${what}`;
  return new QmError("too_large", message, { hint: "Ask it for less.", details: { peer } });
}

/** `fetch` says only "fetch failed"; its cause tells why. */
function describeNetworkError(thrown: unknown): string {
  const cause = thrown instanceof Error && thrown.cause instanceof Error ? thrown.cause : thrown;
  const code = (cause as NodeJS.ErrnoException | undefined)?.code;
  return typeof code === "string" ? `it cannot be reached (${code})` : "it cannot be reached";
}
