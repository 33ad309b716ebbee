import type { IncomingMessage } from "node:http";
import type { ListenOptions } from "./gateway.ts";

/**
 * Stops DNS rebinding: a web page that was lured to our address sends its own name as Host, and its own address as
 * Origin. `isOwnPage`: we served the page that calls, so its origin needs no entry. Undefined: the request may go on.
 */
export function checkSource(
  { rawHeaders, headers: { host, origin } }: IncomingMessage,
  isOwnPage: boolean,
  { allowedHosts, allowedOrigins }: Pick<ListenOptions, "allowedHosts" | "allowedOrigins">,
) {
  // A proxy in front may check another Host header than we do.
  const hosts = rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === "host").length;
  if (hosts !== 1) return { status: 400, message: `Bad Request: exactly one Host header is needed, got ${hosts}` };
  if (!isAllowedHost(host, allowedHosts)) return { status: 421, message: "Misdirected Request: unknown Host" };
  if (origin === undefined || isOwnPage || allowedOrigins.includes(origin)) return undefined;
  return { status: 403, message: "Forbidden: unknown Origin" };
}

const LOOPBACK: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** `host` is the header: a name or an address, IPv6 in brackets, with or without a port. */
function isAllowedHost(host: string | undefined, allowed: readonly string[]): boolean {
  const given = host?.toLowerCase() ?? "";
  const name = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/.exec(given)?.[1];
  if (name === undefined) return false;
  return LOOPBACK.has(name) || allowed.some((known) => [given, name].includes(known.toLowerCase()));
}

const ALLOWED_HEADERS =
  "accept, authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, quartermaster-session";

/** The headers that let a browser show a response to a page of an allowed origin. */
export function createCorsHeaders(origin: string): Record<string, string> {
  return {
    "access-control-allow-origin": origin,
    "access-control-expose-headers": "Mcp-Session-Id, WWW-Authenticate",
    vary: "Origin",
  };
}

/** Answers a browser's preflight. `requested`: the headers that the page wants to send. */
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
      "access-control-allow-headers": [ALLOWED_HEADERS, ...parameters].join(", "),
      "access-control-max-age": "600",
    },
  });
}
