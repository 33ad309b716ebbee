import type { AuthProvider, FetchLike, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { yieldToEventLoop } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import { createFloodGuard, FLOOD_LIMIT, type FloodLimit, findSliceEnd, formatFloodReason } from "./flow-control.ts";
import { createRequester } from "./http-request.ts";
import type { Sdk } from "./sdk-client.ts";

export function openHttpTransport(
  sdk: Sdk,
  url: URL,
  headers: Readonly<Record<string, string>>,
  auth: AuthProvider,
  messageBytes: number,
): StreamableHTTPClientTransport {
  // A configured header replaces the OAuth login.
  const hasAuthorization = Object.keys(headers).some((name) => name.toLowerCase() === "authorization");
  return new sdk.StreamableHTTPClientTransport(url, {
    requestInit: { headers: { ...headers } },
    ...(hasAuthorization ? {} : { authProvider: auth }),
    fetch: createBoundedFetch(messageBytes),
    // A request counts as lost when its stream was cut and could not be resumed this often.
    reconnectionOptions: {
      initialReconnectionDelay: 1000,
      maxReconnectionDelay: 60_000,
      reconnectionDelayGrowFactor: 2,
      maxRetries: 4,
    },
    maxStepUpRetries: 0,
  });
}

/** Throws `invalid_config` unless it is an http or https URL. */
export function parseServerUrl(server: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && /^https?:$/.test(url.protocol)) return url;
  throw new QmError("invalid_config", `servers.${server}.url is not an http or https URL`, {
    hint: "Write the address of the server's MCP endpoint, as in https://example.com/mcp.",
  });
}

/** A stream may begin with an empty event, before the answer. */
const EVENTS_PER_ANSWER = 2;
/** A request as the hub writes it. Our answers to a server's requests allow it nothing, or it would ask without end. */
const OWN_REQUEST = /^\{"jsonrpc":"2\.0","id":\d+,"method":"/;

export function createBoundedFetch(limit: number, floodLimit: FloodLimit = FLOOD_LIMIT): FetchLike {
  const flood = createFloodGuard(floodLimit);
  const send = createRequester(limit);
  return async (url, init = {}) => {
    const { method = "GET", redirect, headers: sent, body: text, signal } = init;
    const isGet = method === "GET" && (text === undefined || text === null);
    const isPost = method === "POST" && typeof text === "string";
    // Both in one way: a stream that was asked for first must not be overtaken by the call that needs it.
    const isUsual = (isGet || isPost) && redirect === "manual" && url instanceof URL && sent instanceof Headers;
    const response = isUsual
      ? await send(url, { method: isPost ? "POST" : "GET", headers: sent, body: isPost ? text : undefined, signal })
      : await fetch(url, init);
    const { body, headers } = response;
    if (body === null) return response;
    if (headers.get("content-type")?.startsWith("text/event-stream") === true) {
      if (isPost && OWN_REQUEST.test(text)) flood.expect(EVENTS_PER_ANSWER);
      const events = limitEvents(limit, () => {
        if (flood.count()) throw new QmError("server_failed", `the server failed: ${formatFloodReason(floodLimit)}`);
      });
      return replaceBody(response, body.pipeThrough(events));
    }
    return hasFittingLength(headers, limit) ? response : replaceBody(response, body.pipeThrough(limitBody(limit)));
  };
}

/** A body is never longer than its stated length unless it is compressed. Counting would slow every small response. */
function hasFittingLength(headers: Headers, limit: number): boolean {
  const length = headers.get("content-length");
  return length !== null && Number(length) <= limit && !headers.has("content-encoding");
}

/** Copies a response with another body. The constructor does not keep `url` and `redirected`. */
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

/** Passes on a few lines per turn, so that a stream of many small events does not delay timers. */
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

const messageTooLongError = (limit: number): QmError =>
  new QmError("too_large", `a message has more than ${limit} bytes`);
