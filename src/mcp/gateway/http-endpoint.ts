import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { isJsonContentType, isLegacyRequest, ProtocolError, readRequestBody } from "@modelcontextprotocol/server";
import { LazyAbortController } from "../../core/abortable.ts";
import { yieldToEventLoop } from "../../core/async.ts";
import { isLargerThan } from "../../core/json.ts";
import { isSessionName, SESSION_HEADER, SESSION_META_KEY } from "./client-sessions.ts";
import type { GatewayLimits, GatewayRequestContext } from "./gateway.ts";
import type { LegacySessions } from "./legacy-sessions.ts";
import { HttpAnswer, isValidEnvelope, MODERN_VERSION, readPlainCall } from "./plain-call.ts";
import type { ProfileEndpoint } from "./profile-endpoint.ts";

/** Larger or deeper than any honest request, and shallow enough for code that recurses through it. */
export const MESSAGE_SHAPE = { nodes: 200_000, depth: 128, fields: 8_000 } as const;
export const LONG_BODY_BYTES = 64 * 1024;

/** Answers one request to the MCP endpoint, in the era of the protocol that it speaks. */
export async function serveHttp(
  endpoint: ProfileEndpoint,
  sessions: LegacySessions,
  limits: GatewayLimits,
  request: Request,
  { principal, body: parsed }: GatewayRequestContext,
): Promise<Response> {
  if (request.method !== "POST") return sessions.serve(endpoint, request, undefined, principal);
  if (!isJsonContentType(request.headers.get("content-type")))
    return createRpcError(415, -32000, "Unsupported Media Type: Content-Type must be application/json");
  const read = parsed === undefined ? await readJsonBody(request, limits.bodyBytes) : { body: parsed };
  if (read instanceof Response) return read;
  const { body } = read;
  if (typeof body !== "object" || body === null) return createRpcError(400, -32600, "Invalid Request: not a message");
  if (isLargerThan(body, MESSAGE_SHAPE))
    return createRpcError(400, -32600, "Invalid Request: too deep, too many parts or too many fields");
  // Parsing a long message and handling it are two turns, so that other requests run in between.
  if (Number(request.headers.get("content-length") ?? LONG_BODY_BYTES) >= LONG_BODY_BYTES) await yieldToEventLoop();
  try {
    if (await isLegacyRequest(request, body)) return await sessions.serve(endpoint, request, body, principal);
    return await endpoint.serveModern(request, body, principal);
  } catch (thrown) {
    if (thrown instanceof ProtocolError) return createRpcError(400, thrown.code, thrown.message);
    throw thrown;
  }
}

/** A request with a parsed body, of a client that was authenticated. */
export interface HttpCall {
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
  readonly principal: string;
  readonly outgoing: ServerResponse;
}

/** Answers a plain call in place. False: it is something else, or wrong, and `serveHttp` must answer it. */
export function answerPlainCall(
  endpoint: ProfileEndpoint,
  sessions: LegacySessions,
  { headers, body, principal, outgoing }: HttpCall,
): boolean {
  const { accept = "" } = headers;
  if (!accept.includes("application/json") || !accept.includes("text/event-stream")) return false;
  if (!isJsonContentType(headers["content-type"] ?? null) || isLargerThan(body, MESSAGE_SHAPE)) return false;
  const call = readPlainCall(body);
  if (call === undefined) return false;
  if (call.envelope === undefined) return sessions.answer(endpoint, call, headers, principal, outgoing);
  const { "mcp-protocol-version": version, "mcp-method": method, "mcp-name": tool } = headers;
  if (version !== MODERN_VERSION || method !== "tools/call" || tool !== call.params.name) return false;
  if (!isValidEnvelope(call.envelope)) return false;
  const given = call.meta?.[SESSION_META_KEY] ?? headers[SESSION_HEADER];
  const name = isSessionName(given) ? given : undefined;
  if (given !== undefined && name === undefined) return false;
  const stop = new LazyAbortController();
  outgoing.once("close", () => {
    if (!outgoing.writableFinished) stop.abort();
  });
  void endpoint.answerModern(call, { principal, name }, new HttpAnswer(outgoing), stop);
  return true;
}

/** A JSON-RPC error without an id: the request was refused before it was parsed or dispatched. */
export function createRpcError(status: number, code: number, message: string, headers = {}): Response {
  return Response.json({ jsonrpc: "2.0", error: { code, message }, id: null }, { status, headers });
}

async function readJsonBody(request: Request, limit: number): Promise<{ readonly body: unknown } | Response> {
  const read = await readRequestBody(request, limit);
  if (read.tooLarge) return createRpcError(413, -32000, formatTooLarge(limit));
  return parseJsonBody(read.text) ?? createRpcError(400, -32700, PARSE_PROBLEM);
}

export const formatTooLarge = (limit: number): string => `Payload Too Large: a request has at most ${limit} bytes`;
export const PARSE_PROBLEM = "Parse error: the request is not JSON";

/** Undefined: it is not JSON. */
export function parseJsonBody(text: string): { readonly body: unknown } | undefined {
  try {
    return { body: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}
