import type { Readable } from "node:stream";
import type { Agent } from "undici";
import { withTimeout } from "../core/async.ts";
import { QmError } from "../core/errors.ts";
import { quoteName } from "../core/names.ts";
import { createHostGuard, type HostAddress } from "./host-guard.ts";
import { readResponseBody } from "./response-body.ts";

export interface GuardedRequest {
  readonly url: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** In decoded bytes. A longer body is cut, and the response says so. */
  readonly maxBytes: number;
  /** Another redirect is an error. With 0, the response is the redirect itself. */
  readonly maxRedirects: number;
  /** For all hops together. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

export interface GuardedResponse {
  /** The address of the last hop. */
  readonly url: string;
  readonly status: number;
  /** The names are in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  readonly truncated: boolean;
  /** The addresses that were redirected to, in order. */
  readonly redirects: readonly string[];
}

export interface GuardOptions {
  /** `host` or `host:port` that may be reached although its address is private. */
  readonly allowHosts?: readonly string[];
  /** Default: the resolver of the system, all addresses. */
  readonly lookup?: ((host: string) => Promise<readonly HostAddress[]>) | undefined;
  /** Called before each request, also after a redirect, once its host is checked. Throws to refuse the request. */
  readonly beforeRequest?: ((url: URL, signal: AbortSignal) => Promise<void> | void) | undefined;
}

export interface GuardedFetch {
  /**
   * Throws `address_refused` for everything but public addresses and the allowed hosts, `timed_out`, and `action_failed`
   * if there is no response.
   */
  fetch(request: GuardedRequest): Promise<GuardedResponse>;
  close(): Promise<void>;
}

const REDIRECTS = [301, 302, 303, 307, 308];
/** The only headers that another origin gets. Any other one could be a secret. */
const HARMLESS_HEADERS = ["accept", "accept-language", "content-type", "user-agent"];

/**
 * A fetch for addresses that models choose. It reaches only public addresses and uses no proxy. A host is checked before
 * it is connected to and again when it is, because a name can resolve to another address the second time.
 */
export function createGuardedFetch(options: GuardOptions = {}): GuardedFetch {
  const { allowHosts = [], lookup = lookUpAll, beforeRequest } = options;
  const guard = createHostGuard(allowHosts, lookup);
  let opened: Promise<Agent> | undefined;

  async function openAgent(): Promise<Agent> {
    const { Agent, buildConnector } = await import("undici");
    const connect = guard.guard((find) => buildConnector({ lookup: find, maxCachedSessions: 0 }));
    // The time is limited for all hops together.
    return new Agent({ connect, headersTimeout: 0, bodyTimeout: 0 });
  }

  async function follow(request: GuardedRequest, signal: AbortSignal): Promise<GuardedResponse> {
    const redirects: string[] = [];
    let hop = toHop(request, guard.parseUrl(request.url));
    for (;;) {
      await guard.check(hop.url);
      await beforeRequest?.(hop.url, signal);
      signal.throwIfAborted();
      opened ??= openAgent();
      const {
        statusCode: status,
        headers: received,
        body,
      } = await (await opened).request({
        origin: hop.url.origin,
        path: hop.url.pathname + hop.url.search,
        method: hop.method as "GET",
        headers: { ...hop.headers, "accept-encoding": "gzip, br" },
        body: hop.body ?? null,
        signal,
      });
      const headers = toPlainHeaders(received);
      const { location } = headers;
      if (!REDIRECTS.includes(status) || location === undefined || request.maxRedirects === 0) {
        const { bytes, truncated } = await readResponseBody(body, headers["content-encoding"], request.maxBytes);
        return { url: hop.url.href, status, headers, body: bytes, truncated, redirects };
      }
      discard(body);
      if (redirects.length === request.maxRedirects)
        throw new QmError(
          "action_failed",
          `${quoteName(request.url)} redirects more than ${request.maxRedirects} times`,
        );
      hop = redirect(hop, status, guard.parseUrl(location, hop.url));
      redirects.push(hop.url.href);
    }
  }

  return {
    async fetch(request) {
      const { timeoutMs: ms, signal } = request;
      const timeoutError = () =>
        new QmError("timed_out", `${quoteName(request.url)} took longer than ${ms} ms`, { hint: LATER_HINT });
      try {
        return await withTimeout({ ms, signal, timeoutError }, (limited) => follow(request, limited));
      } catch (thrown) {
        signal.throwIfAborted();
        if (thrown instanceof QmError) throw thrown;
        throw createNetworkError(request.url, thrown);
      }
    },
    async close() {
      await (await opened)?.destroy();
    },
  };
}

interface Hop {
  readonly url: URL;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | undefined;
}

function toHop({ method = "GET", headers = {}, body }: GuardedRequest, url: URL): Hop {
  const lower = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
  return { url, method: method.toUpperCase(), headers: Object.fromEntries(lower), body };
}

/** The next request after a redirect, as browsers send it. */
function redirect(from: Hop, status: number, url: URL): Hop {
  if (from.url.protocol === "https:" && url.protocol === "http:")
    throw new QmError("address_refused", `${quoteName(from.url.href)} redirects from https to http`);
  const becomesGet = status === 303 ? from.method !== "HEAD" : status < 303 && !["GET", "HEAD"].includes(from.method);
  const kept = Object.entries(from.headers).filter(
    ([name]) =>
      (url.origin === from.url.origin || HARMLESS_HEADERS.includes(name)) &&
      !(becomesGet && name.startsWith("content-")),
  );
  const headers = Object.fromEntries(kept);
  return becomesGet ? { url, method: "GET", headers, body: undefined } : { ...from, url, headers };
}

async function lookUpAll(host: string): Promise<readonly HostAddress[]> {
  const { lookup } = await import("node:dns/promises");
  return (await lookup(host, { all: true })) as HostAddress[];
}

/** Ends the connection instead of reading a body of any length. */
function discard(body: Readable): void {
  body.on("error", () => {}).destroy();
}

const toPlainHeaders = (headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name.toLowerCase(), Array.isArray(value) ? value.join(", ") : value]],
    ),
  );

const LATER_HINT = "Try again later, or use another address.";

/** Shows only the code of the failure: its message can hold an address. */
function createNetworkError(url: string, cause: unknown): QmError {
  const { code } = Object(cause) as NodeJS.ErrnoException;
  const shown = typeof code === "string" ? ` (${code})` : "";
  if (code === "ENOTFOUND") {
    const message = `${quoteName(url)} cannot be reached: its host is unknown${shown}`;
    return new QmError("action_failed", message, { hint: "Check the address.", cause });
  }
  const isUntrusted = /^ERR_(?:SSL|TLS)_|CERT|SIGNATURE/.test(shown);
  const why = isUntrusted ? ": its server has no valid certificate" : "";
  return new QmError("action_failed", `${quoteName(url)} cannot be reached${why}${shown}`, { hint: LATER_HINT, cause });
}
