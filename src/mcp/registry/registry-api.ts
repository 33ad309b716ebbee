import { QmError } from "../../core/errors.ts";
import { isRecord } from "../../core/json.ts";
import { quoted } from "../../core/names.ts";
import { below, type Fetch, getDocument, jsonOf, refused, wordsIn } from "./http.ts";
import { parseEntry, type RegistryEntry } from "./registry-entry.ts";

/** One page of a registry's list. */
export interface ApiPage {
  readonly entries: readonly RegistryEntry[];
  /** What could not be read, and is left out. */
  readonly broken: number;
  readonly nextCursor?: string;
}

export interface PageQuery {
  readonly cursor?: string | undefined;
  readonly updatedSince?: string | undefined;
}

/** The three questions that are asked of a registry. Everything that keeps an answer from coming is `registry_failed`. */
export interface RegistryApi {
  /** The latest versions of all servers, a page at a time. With `updatedSince`, deleted ones are among them. */
  page(query: PageQuery, signal: AbortSignal): Promise<ApiPage>;
  /** Undefined: the registry has no such server, or no such version of it. */
  version(name: string, version: string, signal?: AbortSignal): Promise<RegistryEntry | undefined>;
}

const PAGE_SIZE = 100;
const PAGE_BYTES = 16 * 2 ** 20;

export function registryApi(base: URL, fetch: Fetch, timeoutMs: number): RegistryApi {
  const limits = { fetch, timeoutMs, what: "the registry", bytes: PAGE_BYTES, redirects: "same-origin" } as const;
  return {
    async page({ cursor, updatedSince }, signal) {
      const url = below(base, "v0.1/servers");
      url.searchParams.set("limit", String(PAGE_SIZE));
      url.searchParams.set("version", "latest");
      if (updatedSince !== undefined) url.searchParams.set("updated_since", updatedSince);
      if (cursor !== undefined) url.searchParams.set("cursor", cursor);
      const answer = await getDocument(url, limits, signal);
      if (answer.status !== 200) throw refused(url, limits, answer);
      return pageIn(url, jsonOf(url, limits, answer));
    },
    async version(name, version, signal) {
      const url = below(base, `v0.1/servers/${encodeURIComponent(name)}/versions/${encodeURIComponent(version)}`);
      const answer = await getDocument(url, limits, signal);
      // A server that knows nothing of the path answers 404 too, and says nothing that a registry would.
      if (answer.status === 404 && wordsIn(answer) !== undefined) return undefined;
      if (answer.status !== 200) throw refused(url, limits, answer);
      const parsed = parseEntry(jsonOf(url, limits, answer));
      if (parsed.ok) return parsed.entry;
      throw new QmError("registry_failed", `the registry's entry for ${quoted(name)} cannot be read`, {
        hint: `It is the publisher's to correct: ${parsed.problem}. Give the server's package or command yourself.`,
      });
    },
  };
}

function pageIn(url: URL, body: unknown): ApiPage {
  if (!isRecord(body) || !Array.isArray(body.servers)) {
    throw new QmError("registry_failed", `what ${url.origin} answers is no list of MCP servers`, {
      hint: "See that the URL is that of an MCP registry.",
    });
  }
  const parsed = body.servers.slice(0, PAGE_SIZE * 10).map(parseEntry);
  const entries = parsed.flatMap((one) => (one.ok ? [one.entry] : []));
  const metadata = isRecord(body.metadata) ? body.metadata : {};
  const nextCursor = metadata.nextCursor ?? metadata.next_cursor;
  const goesOn = typeof nextCursor === "string" && nextCursor !== "";
  return { entries, broken: parsed.length - entries.length, ...(goesOn ? { nextCursor } : {}) };
}
