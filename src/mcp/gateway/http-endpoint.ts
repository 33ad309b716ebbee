import { hash } from "node:crypto";
import { isJsonContentType, isLegacyRequest, ProtocolError, readRequestBody } from "@modelcontextprotocol/server";
import { yieldToEventLoop } from "../../core/async.ts";
import { isLargerThan } from "../../core/json.ts";
import type { GatewayLimits, GatewayRequestContext } from "./gateway.ts";
import type { LegacySessions } from "./legacy-sessions.ts";
import type { ProfileEndpoint } from "./profile-endpoint.ts";

/** An error as JSON-RPC has it, for what is refused before it gets to anything that answers requests. */
export function createRpcErrorResponse(
  status: number,
  code: number,
  message: string,
  headers?: Record<string, string>,
): Response {
  return Response.json(
    { jsonrpc: "2.0", error: { code, message }, id: null },
    { status, ...(headers === undefined ? {} : { headers }) },
  );
}

interface AllowedSources {
  readonly hosts: readonly string[];
  readonly origins: readonly string[];
}

/** A request must have exactly one `Host`: a proxy in front may check another one than we do. */
export function checkHostCount(rawHeaders: readonly string[]): Response | undefined {
  const count = rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === "host").length;
  return count === 1
    ? undefined
    : createRpcErrorResponse(400, -32000, `Bad Request: exactly one Host header is needed, got ${count}`);
}

/**
 * A web page that was lured to our address under a name of its own sends that name as Host, and its own address as
 * Origin. Undefined: the request is not one of those.
 */
export function checkHostAndOrigin(
  headers: { readonly host?: string | undefined; readonly origin?: string | undefined },
  allowed: AllowedSources,
): Response | undefined {
  if (!isAllowedHost(headers.host, allowed.hosts))
    return createRpcErrorResponse(421, -32000, "Misdirected Request: unknown Host");
  if (headers.origin !== undefined && !allowed.origins.includes(headers.origin)) {
    return createRpcErrorResponse(403, -32000, "Forbidden: unknown Origin");
  }
  return undefined;
}

const LOOPBACK: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** `host` as the header has it: a name or an address, IPv6 in brackets, with or without a port. */
function isAllowedHost(host: string | undefined, allowed: readonly string[]): boolean {
  const given = host?.toLowerCase() ?? "";
  const name = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/.exec(given)?.[1];
  if (name === undefined) return false;
  return LOOPBACK.has(name) || allowed.some((known) => known.toLowerCase() === given || known.toLowerCase() === name);
}

/** The token of an `Authorization: Bearer` header. */
export function readBearerToken(header: string | undefined): string | undefined {
  return /^Bearer +([^\s,]+)$/i.exec(header ?? "")?.[1];
}

export function rejectUnauthorized(hadToken: boolean): Response {
  const challenge = `Bearer realm="quartermaster"${hadToken ? ', error="invalid_token"' : ""}`;
  return createRpcErrorResponse(401, -32000, "Unauthorized: a bearer token of a profile is needed", {
    "WWW-Authenticate": challenge,
  });
}

/** What stands for a token where it must be remembered. */
export function hashToken(token: string): string {
  return hash("sha256", token, "hex");
}

const ALLOWED_HEADERS = [
  "accept",
  "authorization",
  "content-type",
  "last-event-id",
  "mcp-method",
  "mcp-name",
  "mcp-protocol-version",
  "mcp-session-id",
  "quartermaster-session",
];

/** What a browser must be told before it lets an allowed page read an answer. */
export function createCorsHeaders(origin: string): Record<string, string> {
  return {
    "access-control-allow-origin": origin,
    "access-control-expose-headers": "Mcp-Session-Id, WWW-Authenticate",
    vary: "Origin",
  };
}

/** The answer to a browser that asks whether a page may call. `requested`: the headers the page wants to send. */
export function answerPreflight(requested: string | undefined): Response {
  const parameters = (requested ?? "")
    .split(",")
    .map((header) => header.trim().toLowerCase())
    .filter((header) => /^mcp-param-[a-z0-9!#$%&'*+.^_`|~-]+$/.test(header))
    .slice(0, 32);
  return new Response(null, {
    status: 204,
    headers: {
      "access-control-allow-methods": "GET, POST, DELETE",
      "access-control-allow-headers": [...ALLOWED_HEADERS, ...parameters].join(", "),
      "access-control-max-age": "600",
    },
  });
}

/** Deeper or larger than any honest request, and shallow enough for whatever walks through it. */
export const MESSAGE_SHAPE = { nodes: 200_000, depth: 128, fields: 8_000 } as const;

const LONG_BODY_BYTES = 64 * 1024;

/** Answers one request to the endpoint, in the era that it speaks. */
export async function serveHttp(
  endpoint: ProfileEndpoint,
  sessions: LegacySessions,
  limits: GatewayLimits,
  request: Request,
  { principal, body: given }: GatewayRequestContext,
): Promise<Response> {
  if (request.method !== "POST") return sessions.serve(endpoint, request, undefined, principal);
  if (!isJsonContentType(request.headers.get("content-type"))) {
    return createRpcErrorResponse(415, -32000, "Unsupported Media Type: Content-Type must be application/json");
  }
  const read = given === undefined ? await readJsonBody(request, limits.bodyBytes) : { body: given };
  if (read instanceof Response) return read;
  const { body } = read;
  if (typeof body !== "object" || body === null)
    return createRpcErrorResponse(400, -32600, "Invalid Request: not a message");
  if (isLargerThan(body, MESSAGE_SHAPE))
    return createRpcErrorResponse(400, -32600, "Invalid Request: too deep, too many parts or too many fields");
  // Parsing a long message and handling it are two turns, so that others have theirs in between.
  if (Number(request.headers.get("content-length") ?? LONG_BODY_BYTES) >= LONG_BODY_BYTES) await yieldToEventLoop();
  try {
    if (await isLegacyRequest(request, body)) return await sessions.serve(endpoint, request, body, principal);
    return await endpoint.serveModern(request, body, principal);
  } catch (thrown) {
    if (thrown instanceof ProtocolError) return createRpcErrorResponse(400, thrown.code, thrown.message);
    throw thrown;
  }
}

async function readJsonBody(request: Request, limit: number): Promise<{ readonly body: unknown } | Response> {
  const read = await readRequestBody(request, limit);
  return read.tooLarge ? rejectTooLarge(limit) : parseJsonBody(read.text);
}

export function rejectTooLarge(limit: number): Response {
  return createRpcErrorResponse(413, -32000, `Payload Too Large: a request has at most ${limit} bytes`);
}

export function parseJsonBody(text: string): { readonly body: unknown } | Response {
  try {
    return { body: JSON.parse(text) as unknown };
  } catch {
    return createRpcErrorResponse(400, -32700, "Parse error: the request is not JSON");
  }
}
