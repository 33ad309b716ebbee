import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { clip, isRecord } from "../../core/json.ts";
import { createGuardedFetch, type GuardedFetch } from "../../net/guarded-fetch.ts";

export interface SearchEndpoint {
  readonly kind: "searxng" | "brave";
  /** The address, and a token if there is one. Read for each call, so that a secret stored later counts. */
  readonly read: () => { readonly url: string; readonly token?: string | undefined };
}

const MAX_BYTES = 2 * 1024 * 1024;
const SEARCH_MS = 20_000;
const NOT_CONFIGURED = "No search engine is configured. An operator must set providers.web.search.";
const SEARCH_HINT = "Try again later. If it fails again, an operator must check providers.web.search.";

const input = z.lazy(() =>
  z.strictObject({
    query: z.string().min(1).max(400).describe("What to search for."),
    limit: z.int().min(1).max(20).default(8).describe("Maximum number of results."),
  }),
);

export const searchWebAction = (endpoint: SearchEndpoint | undefined, userAgent: string): Action =>
  defineAction("web", {
    entry: "search",
    description: "Search the web for pages. Returns titles, addresses and snippets. To read a page, use fetch.",
    effect: "external",
    idempotent: true,
    tags: ["web"],
    input,
    examples: [{ args: { query: "opening hours of the botanical garden", limit: 5 } }],
    ...(endpoint === undefined
      ? { readiness: () => "unavailable" as const, readinessReason: () => NOT_CONFIGURED }
      : {}),
    run: async ({ query, limit }, { signal }) => {
      if (endpoint === undefined) throw new QmError("action_failed", NOT_CONFIGURED);
      const { url, headers } = createSearchRequest(endpoint, query, limit);
      // The operator chose this host, so it may be private. No redirect leads the token elsewhere.
      const guarded = createGuardedFetch({ allowHosts: [url.host] });
      try {
        const sent = { ...headers, "user-agent": userAgent, accept: "application/json" };
        return { query, results: await requestResults(guarded, endpoint.kind, url, sent, limit, signal) };
      } finally {
        await guarded.close();
      }
    },
  });

function createSearchRequest({ kind, read }: SearchEndpoint, query: string, limit: number) {
  const { url: text, token } = read();
  if (!URL.canParse(text)) throw new QmError("invalid_config", "providers.web.search.url is not a URL");
  const url = new URL(text);
  if (!/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "") {
    const expected = "must be an http or https URL without a user name or a password";
    throw new QmError("invalid_config", `providers.web.search.url ${expected}`, {
      hint: "An operator must correct it.",
    });
  }
  if (kind === "brave") url.searchParams.set("count", `${limit}`);
  else {
    url.pathname = `${url.pathname.replace(/\/(?:search)?$/, "")}/search`;
    url.searchParams.set("format", "json");
  }
  url.searchParams.set("q", query);
  if (token === undefined) return { url, headers: {} };
  return { url, headers: kind === "brave" ? { "x-subscription-token": token } : { authorization: `Bearer ${token}` } };
}

async function requestResults(
  { fetch }: GuardedFetch,
  kind: SearchEndpoint["kind"],
  url: URL,
  headers: Readonly<Record<string, string>>,
  limit: number,
  signal: AbortSignal,
) {
  const request = { url: url.href, headers, maxBytes: MAX_BYTES, maxRedirects: 0, timeoutMs: SEARCH_MS, signal };
  const { status, body } = await fetch(request).catch((thrown: unknown) => {
    signal.throwIfAborted();
    // The address can be internal, so it is not repeated.
    throw new QmError("action_failed", "the search engine cannot be reached", { cause: thrown, hint: SEARCH_HINT });
  });
  const text = Buffer.from(body).toString("utf8");
  // Brave answers 422 to a wrong token, and also to a query it cannot take.
  if (status === 401 || status === 403 || (status === 422 && text.includes("SUBSCRIPTION_TOKEN")))
    throw new QmError("needs_login", `the search engine refused the request with ${status}`, {
      hint: "An operator must correct providers.web.search: the token, or the JSON format of the engine.",
    });
  if (status !== 200)
    throw new QmError("action_failed", `the search engine answered with the status ${status}`, {
      hint: SEARCH_HINT,
    });
  const found = listResults(kind, parseAnswer(text));
  if (found === undefined)
    throw new QmError("action_failed", `the search engine did not answer like ${kind}`, { hint: SEARCH_HINT });
  return found.flatMap((each) => toSearchHit(each, kind)).slice(0, limit);
}

function parseAnswer(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function listResults(kind: SearchEndpoint["kind"], answer: unknown): readonly unknown[] | undefined {
  if (!isRecord(answer)) return undefined;
  // Brave leaves `web` out if it has found no page.
  if (kind === "brave" && answer.web === undefined) return answer.type === "search" ? [] : undefined;
  const results = kind === "brave" ? isRecord(answer.web) && answer.web.results : answer.results;
  return Array.isArray(results) ? results : undefined;
}

function toSearchHit(result: unknown, kind: SearchEndpoint["kind"]) {
  if (!isRecord(result) || typeof result.url !== "string" || !/^https?:\/\//.test(result.url)) return [];
  const snippet = kind === "brave" ? result.description : result.content;
  return [{ title: toPlainText(result.title, 200), url: clip(result.url, 4096), snippet: toPlainText(snippet, 500) }];
}

/** Engines mark the words of the query with tags, and write some characters as in HTML. */
const toPlainText = (text: unknown, limit: number): string =>
  typeof text === "string" ? clip(decodeEntities(text.slice(0, 4 * limit).replace(/<[^<>]*>/g, "")), limit) : "";

const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: " " };

const decodeEntities = (text: string): string =>
  text.replace(/&(?:(amp|lt|gt|quot|apos|nbsp)|#(\d{1,5})|#x([0-9a-f]{1,4}));/gi, (_, name, decimal, hex) =>
    name === undefined
      ? String.fromCharCode(Number.parseInt(decimal ?? hex, decimal === undefined ? 16 : 10))
      : (ENTITIES[name.toLowerCase()] ?? ""),
  );
