import type { FetchLike } from "@modelcontextprotocol/client";
import { QmError } from "../../core/errors.ts";
import { boundedFetch } from "./http-transport.ts";

/** What an authorization server says is short, and comes soon. */
const BYTES = 1024 * 1024;
const PATIENCE_MS = 30_000;
const HOPS = 5;

/**
 * Requests on the way to a login. A server may name any address as its authorization server: only https is asked, or
 * what is where the server itself is, and the same holds wherever an answer leads. Nothing that is configured for the server is sent along.
 */
export function oauthFetch(server: URL, signal?: AbortSignal): FetchLike {
  const bounded = boundedFetch(BYTES);
  const requireFit = (url: URL) => {
    const isNear = url.origin === server.origin || (isLoopback(url) && isLoopback(server));
    if (url.protocol !== "https:" && !isNear)
      throw new QmError("needs_login", `logging in would go over ${url.origin}, which is not https`);
  };
  return async (target, init) => {
    const signals = [AbortSignal.timeout(PATIENCE_MS), signal, init?.signal].filter((one) => one != null);
    let url = new URL(target);
    for (let hop = 0; ; hop++) {
      requireFit(url);
      const response = await bounded(url, { ...init, redirect: "manual", signal: AbortSignal.any(signals) });
      const next = redirection(response, url);
      // What is posted holds codes and tokens: it goes where it was to go, or nowhere.
      if (next === undefined || (init?.method ?? "GET") !== "GET") return response;
      if (hop === HOPS) throw new QmError("needs_login", `${url.origin} leads from one address to another without end`);
      await response.body?.cancel();
      url = next;
    }
  };
}

function redirection({ status, headers }: Response, from: URL): URL | undefined {
  const location = [301, 302, 303, 307, 308].includes(status) ? headers.get("location") : null;
  return location !== null && URL.canParse(location, from.href) ? new URL(location, from) : undefined;
}

function isLoopback({ hostname }: URL): boolean {
  return /^(?:localhost|.+\.localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname);
}
