import type { FetchLike } from "@modelcontextprotocol/client";
import { QmError } from "../../core/errors.ts";
import { boundedFetch } from "./http-transport.ts";

/** What an authorization server says is short, and comes soon. */
const BYTES = 1024 * 1024;
const PATIENCE_MS = 30_000;

/**
 * Requests on the way to a login. A server may name any address as its authorization server: only https is asked, or
 * what is where the server itself is. Nothing that is configured for the server is sent along.
 */
export function oauthFetch(server: URL, signal?: AbortSignal): FetchLike {
  const bounded = boundedFetch(BYTES);
  return (target, init) => {
    const url = new URL(target);
    const isNear = url.origin === server.origin || (isLoopback(url) && isLoopback(server));
    if (url.protocol !== "https:" && !isNear)
      throw new QmError("needs_login", `logging in would go over ${url.origin}, which is not https`);
    const signals = [AbortSignal.timeout(PATIENCE_MS), signal, init?.signal].filter((one) => one != null);
    return bounded(url, { ...init, signal: AbortSignal.any(signals) });
  };
}

function isLoopback({ hostname }: URL): boolean {
  return /^(?:localhost|.+\.localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname);
}
