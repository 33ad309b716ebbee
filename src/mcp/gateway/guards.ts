import { hash } from "node:crypto";
import { rpcError } from "./rpc-error.ts";

export interface Allowed {
  readonly hosts: readonly string[];
  readonly origins: readonly string[];
}

/** A request must have exactly one `Host`: a proxy in front may check another one than we do. */
export function refusedHostCount(rawHeaders: readonly string[]): Response | undefined {
  const count = rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === "host").length;
  return count === 1
    ? undefined
    : rpcError(400, -32000, `Bad Request: exactly one Host header is needed, got ${count}`);
}

/**
 * A web page that was lured to our address under a name of its own sends that name as Host, and its own address as
 * Origin. Undefined: the request is not one of those.
 */
export function refusedPlace(
  headers: { readonly host?: string | undefined; readonly origin?: string | undefined },
  allowed: Allowed,
): Response | undefined {
  if (!isOurHost(headers.host, allowed.hosts)) return rpcError(421, -32000, "Misdirected Request: unknown Host");
  if (headers.origin !== undefined && !allowed.origins.includes(headers.origin)) {
    return rpcError(403, -32000, "Forbidden: unknown Origin");
  }
  return undefined;
}

const LOOPBACK: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** `host` as the header has it: a name or an address, IPv6 in brackets, with or without a port. */
function isOurHost(host: string | undefined, allowed: readonly string[]): boolean {
  const given = host?.toLowerCase() ?? "";
  const name = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/.exec(given)?.[1];
  if (name === undefined) return false;
  return LOOPBACK.has(name) || allowed.some((known) => known.toLowerCase() === given || known.toLowerCase() === name);
}

/** The token of an `Authorization: Bearer` header. */
export function bearerToken(header: string | undefined): string | undefined {
  return /^Bearer +([^\s,]+)$/i.exec(header ?? "")?.[1];
}

export function unauthorized(hadToken: boolean): Response {
  const challenge = `Bearer realm="quartermaster"${hadToken ? ', error="invalid_token"' : ""}`;
  return rpcError(401, -32000, "Unauthorized: a bearer token of a profile is needed", {
    "WWW-Authenticate": challenge,
  });
}

/** What stands for a token where it must be remembered. */
export function principalOf(token: string): string {
  return hash("sha256", token, "hex");
}
