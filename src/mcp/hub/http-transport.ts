import type { AuthProvider, FetchLike, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { yieldToEventLoop } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import { createFloodGuard, FLOOD_LIMIT, type FloodLimit, findSliceEnd, formatFloodReason } from "./flow-control.ts";
import type { Sdk } from "./sdk-client.ts";

interface HttpTransportOptions {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly auth: AuthProvider;
  /** The longest message that is read. */
  readonly messageBytes: number;
}

/** How often a stream that was cut is taken up again before its request counts as lost. */
const RECONNECT_OPTIONS = {
  initialReconnectionDelay: 1000,
  maxReconnectionDelay: 60_000,
  reconnectionDelayGrowFactor: 2,
  maxRetries: 4,
};

/** Streamable HTTP, with a bound on what one message may hold. Redirects to another origin are not followed. */
export function openHttpTransport(
  sdk: Sdk,
  { url, headers, auth, messageBytes }: HttpTransportOptions,
): StreamableHTTPClientTransport {
  return new sdk.StreamableHTTPClientTransport(url, {
    requestInit: { headers: { ...headers } },
    // A header that the configuration gives stands for the whole of logging in.
    ...(hasAuthorization(headers) ? {} : { authProvider: auth }),
    fetch: createBoundedFetch(messageBytes),
    reconnectionOptions: RECONNECT_OPTIONS,
    maxStepUpRetries: 0,
  });
}

/** The URL of a server, filled; anything but http and https is refused. */
export function parseServerUrl(server: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw new QmError("invalid_config", `servers.${server}.url is no http or https URL`, {
      hint: "Write the address of the server's MCP endpoint, as in https://example.com/mcp.",
    });
  return url;
}

function hasAuthorization(headers: Readonly<Record<string, string>>): boolean {
  return Object.keys(headers).some((name) => name.toLowerCase() === "authorization");
}

/** Counts what a message has, and begins anew with each event of a stream. */
export function createBoundedFetch(limit: number, flood: FloodLimit = FLOOD_LIMIT): FetchLike {
  const guard = createFloodGuard(flood);
  return async (url, init) => {
    const response = await fetch(url, init);
    const perEvent = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
    if (response.body === null || (!perEvent && hasFittingLength(response.headers, limit))) return response;
    const events = () =>
      limitEvents(limit, () => {
        if (guard.isFlooded()) throw new QmError("server_failed", `the server failed: ${formatFloodReason(flood)}`);
      });
    return replaceBody(response, response.body.pipeThrough(perEvent ? events() : limitBody(limit)));
  };
}

/** No more is read than a response says it has, unless it is packed: counting it again would cost every small answer. */
function hasFittingLength(headers: Headers, limit: number): boolean {
  const length = headers.get("content-length");
  return length !== null && Number(length) <= limit && !headers.has("content-encoding");
}

/** A response is copied to give it another body, and a copy forgets where it came from. */
function replaceBody({ status, statusText, headers, url, redirected }: Response, body: ReadableStream): Response {
  const copy = new Response(body, { status, statusText, headers });
  return Object.defineProperties(copy, { url: { value: url }, redirected: { value: redirected } });
}

function limitBody(limit: number): TransformStream<Uint8Array, Uint8Array> {
  let bytes = 0;
  return new TransformStream({
    transform(chunk, controller) {
      bytes += chunk.length;
      if (bytes > limit) controller.error(messageTooLongError(limit));
      else controller.enqueue(chunk);
    },
  });
}

const NEWLINE = 10;
const RETURN = 13;

/** Hands on a few lines a turn, so that a stream of many small events does not keep timers waiting. */
function limitEvents(limit: number, onEvent: () => void): TransformStream<Uint8Array, Uint8Array> {
  let bytes = 0;
  let last = 0;
  return new TransformStream({
    async transform(chunk, controller) {
      for (let from = 0; from < chunk.length; ) {
        const piece = chunk.subarray(from, findSliceEnd(chunk, from));
        from += piece.length;
        for (const byte of piece) {
          if (byte === RETURN) continue;
          const isEnd = byte === NEWLINE && last === NEWLINE;
          if (isEnd) onEvent();
          bytes = isEnd ? 0 : bytes + 1;
          last = byte;
          if (bytes > limit) return controller.error(messageTooLongError(limit));
        }
        controller.enqueue(piece);
        if (from < chunk.length) await yieldToEventLoop();
      }
    },
  });
}

function messageTooLongError(limit: number): QmError {
  return new QmError("too_large", `a message has more than ${limit} bytes`);
}
