import { toOneLine } from "../../core/display-text.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { isLargerThan, isRecord, type JsonObject } from "../../core/json.ts";
import type { OfferedTool, ServerOffer } from "../manifests/offer.ts";
import { findParamHeaders } from "./param-headers.ts";

/** What a server may offer at most; beyond it, it is taken to be broken. */
export interface ListingLimits {
  readonly pages: number;
  readonly entries: number;
  /** Of all lists together, as JSON. */
  readonly characters: number;
}

export const listingLimits: ListingLimits = { pages: 1000, entries: 20_000, characters: 64 * 1024 * 1024 };

const ENTRY_BOUNDS = { nodes: 100_000, depth: 100 };

export type OfferLists = Pick<ServerOffer, "tools" | "resources" | "resourceTemplates" | "prompts">;

export interface OfferListing {
  readonly lists: OfferLists;
  /** What was left out, and which lists failed. */
  readonly problems: readonly string[];
}

export interface ListingOptions {
  readonly server: string;
  readonly capabilities: JsonObject;
  readonly ask: (method: string, params: JsonObject) => Promise<JsonObject>;
  /** Whether arguments go as headers too: a tool that annotates them wrongly cannot be called then. */
  readonly paramHeaders: boolean;
  readonly limits: ListingLimits;
  /** Kept for a list that fails. Absent: it is the first time, and without its tools the server is not known. */
  readonly before?: OfferLists | undefined;
}

type EntryCheck = (entry: Record<string, unknown>) => string | undefined;

interface ListKind {
  readonly key: keyof OfferLists;
  readonly method: string;
  readonly capability: string;
  readonly idOf: (entry: Record<string, unknown>) => unknown;
  readonly check: EntryCheck;
}

const LISTS: readonly ListKind[] = [
  { key: "tools", method: "tools/list", capability: "tools", idOf: ({ name }) => name, check: checkTool },
  {
    key: "resources",
    method: "resources/list",
    capability: "resources",
    idOf: ({ uri }) => uri,
    check: ({ uri }) => checkText("uri", uri),
  },
  {
    key: "resourceTemplates",
    method: "resources/templates/list",
    capability: "resources",
    idOf: ({ uriTemplate }) => uriTemplate,
    check: ({ uriTemplate }) => checkText("uriTemplate", uriTemplate),
  },
  {
    key: "prompts",
    method: "prompts/list",
    capability: "prompts",
    idOf: ({ name }) => name,
    check: ({ name }) => checkText("name", name),
  },
];

/**
 * Everything a server lists, all pages. An entry that is malformed is left out and told of, a list that fails does not
 * take the others with it, and a list without end is an error. Tools that fail the first time are one too: that a server
 * has none must not be learned from that.
 */
export async function listOffer(options: ListingOptions): Promise<OfferListing> {
  const room = { entries: options.limits.entries, characters: options.limits.characters };
  const problems: string[] = [];
  const lists: Record<keyof OfferLists, readonly JsonObject[]> = {
    tools: options.before?.tools ?? [],
    resources: options.before?.resources ?? [],
    resourceTemplates: options.before?.resourceTemplates ?? [],
    prompts: options.before?.prompts ?? [],
  };
  for (const list of LISTS) {
    if (!isRecord(options.capabilities[list.capability])) {
      lists[list.key] = [];
      continue;
    }
    try {
      lists[list.key] = selectValidEntries(list, await fetchEntries(list, options, room), options, problems);
    } catch (thrown) {
      if (!(thrown instanceof QmError) || thrown.code !== "action_failed") throw thrown;
      // Most servers with resources have no templates, and say so by not knowing the method.
      const isUnknown = thrown.details.mcp_code === -32601;
      if (list.key === "tools" && options.before === undefined && !isUnknown)
        throw toolsUnlistedError(options.server, thrown);
      if (!isUnknown || (list.key === "tools" && lists.tools.length > 0))
        problems.push(`${list.method} failed: ${getErrorMessage(thrown)}`);
    }
  }
  return { lists: lists as unknown as OfferLists, problems };
}

async function fetchEntries(
  { key, method }: ListKind,
  { server, ask, limits }: ListingOptions,
  room: { entries: number; characters: number },
): Promise<readonly unknown[]> {
  const entries: unknown[] = [];
  const seen = new Set<string>();
  let cursor: string | undefined;
  for (let page = 0; ; page++) {
    if (page === limits.pages) throw endlessListError(server, method, `more than ${limits.pages} pages`);
    const result = await ask(method, cursor === undefined ? {} : { cursor });
    const found = result[key];
    if (!Array.isArray(found))
      throw new QmError("action_failed", `${method} of ${server} answered without a list of ${key}`);
    room.entries -= found.length;
    room.characters -= JSON.stringify(found).length;
    if (room.entries < 0) throw endlessListError(server, method, `more than ${limits.entries} entries`);
    if (room.characters < 0) throw endlessListError(server, method, `more than ${limits.characters} characters`);
    for (const entry of found) entries.push(entry);
    // An empty cursor is one like any other.
    if (typeof result.nextCursor !== "string") return entries;
    cursor = result.nextCursor;
    if (seen.has(cursor)) throw endlessListError(server, method, "the same page twice");
    seen.add(cursor);
  }
}

function toolsUnlistedError(server: string, thrown: QmError): QmError {
  return new QmError("server_failed", `server ${server} does not say which tools it has: ${getErrorMessage(thrown)}`, {
    hint: `Try it again with \`qm servers start ${server}\`.`,
    details: thrown.details,
  });
}

function endlessListError(server: string, method: string, what: string): QmError {
  return new QmError("too_large", `${server} offers too much: ${what} in ${method}`, {
    hint: "The server does not end its lists, or offers more than can be handled. Ask whoever makes it.",
  });
}

function selectValidEntries(
  { key, idOf, check }: ListKind,
  entries: readonly unknown[],
  { paramHeaders }: ListingOptions,
  problems: string[],
): readonly JsonObject[] {
  const ids = new Set<unknown>();
  const kept: JsonObject[] = [];
  for (const [at, raw] of entries.entries()) {
    const entry = isRecord(raw) ? withoutNulls(raw) : undefined;
    const id = entry === undefined ? undefined : idOf(entry);
    const problem =
      entry === undefined
        ? "is no object"
        : isLargerThan(entry, ENTRY_BOUNDS)
          ? "is too large or nested too deep"
          : (check(entry) ??
            (ids.has(id) ? "is there twice" : undefined) ??
            (key === "tools" && paramHeaders ? checkHeaders(entry) : undefined));
    if (problem === undefined) {
      ids.add(id);
      kept.push(entry as JsonObject);
    } else if (problems.length < 20)
      problems.push(
        `${key}: ${typeof id === "string" ? JSON.stringify(toOneLine(id)) : `number ${at + 1}`} ${problem}`,
      );
  }
  return kept;
}

/** Some servers write `null` for what is absent. */
function withoutNulls(entry: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== null));
}

function checkTool({ name, title, description, inputSchema, outputSchema, annotations }: Record<string, unknown>) {
  if (typeof name !== "string" || name === "" || name.length > 256) return "has no name that could be used";
  for (const [key, text] of Object.entries({ title, description }))
    if (text !== undefined && typeof text !== "string") return `has a ${key} that is no text`;
  if (!isRecord(inputSchema)) return "has no inputSchema";
  for (const [key, part] of Object.entries({ outputSchema, annotations }))
    if (part !== undefined && !isRecord(part)) return `has an ${key} that is no object`;
  return undefined;
}

function checkText(key: string, value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? undefined : `has no ${key}`;
}

function checkHeaders(entry: Record<string, unknown>): string | undefined {
  const scan = findParamHeaders((entry as OfferedTool).inputSchema);
  return scan.ok ? undefined : `cannot be called over HTTP: ${toOneLine(scan.problem)}`;
}
