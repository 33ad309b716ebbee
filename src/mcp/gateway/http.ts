import { isJsonContentType, isLegacyRequest, ProtocolError, readRequestBody } from "@modelcontextprotocol/server";
import { yieldToEventLoop } from "../../core/async.ts";
import { outgrows } from "../../core/json.ts";
import type { Face } from "./face.ts";
import type { GatewayLimits, Remote } from "./gateway.ts";
import type { LegacySessions } from "./legacy-sessions.ts";
import { rpcError } from "./rpc-error.ts";

/** Deeper or larger than any honest request, and shallow enough for whatever walks through it. */
export const MESSAGE_SHAPE = { nodes: 200_000, depth: 128, fields: 8_000 } as const;

const LONG = 64 * 1024;

/** Answers one request to the endpoint, in the era that it speaks. */
export async function serveHttp(
  face: Face,
  sessions: LegacySessions,
  limits: GatewayLimits,
  request: Request,
  { principal, body: given }: Remote,
): Promise<Response> {
  if (request.method !== "POST") return sessions.serve(face, request, undefined, principal);
  if (!isJsonContentType(request.headers.get("content-type"))) {
    return rpcError(415, -32000, "Unsupported Media Type: Content-Type must be application/json");
  }
  const read = given === undefined ? await bodyOf(request, limits.bodyBytes) : { body: given };
  if (read instanceof Response) return read;
  const { body } = read;
  if (typeof body !== "object" || body === null) return rpcError(400, -32600, "Invalid Request: not a message");
  if (outgrows(body, MESSAGE_SHAPE))
    return rpcError(400, -32600, "Invalid Request: too deep, too many parts or too many fields");
  // Parsing a long message and handling it are two turns, so that others have theirs in between.
  if (Number(request.headers.get("content-length") ?? LONG) >= LONG) await yieldToEventLoop();
  try {
    if (await isLegacyRequest(request, body)) return await sessions.serve(face, request, body, principal);
    return await face.serveModern(request, body, principal);
  } catch (thrown) {
    if (thrown instanceof ProtocolError) return rpcError(400, thrown.code, thrown.message);
    throw thrown;
  }
}

async function bodyOf(request: Request, limit: number): Promise<{ readonly body: unknown } | Response> {
  const read = await readRequestBody(request, limit);
  return read.tooLarge ? tooLarge(limit) : parsedBody(read.text);
}

export function tooLarge(limit: number): Response {
  return rpcError(413, -32000, `Payload Too Large: a request has at most ${limit} bytes`);
}

export function parsedBody(text: string): { readonly body: unknown } | Response {
  try {
    return { body: JSON.parse(text) as unknown };
  } catch {
    return rpcError(400, -32700, "Parse error: the request is not JSON");
  }
}
