import { toOneLine } from "../../core/display-text.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { isLargerThan, isRecord, type JsonObject } from "../../core/json.ts";
import { checkOfferedTool, type OfferedTool, type ServerOffer } from "../manifests/offer.ts";
import { hasSkills, isSkillUri, toSkillDefinition } from "../manifests/offered-skill.ts";
import { findParamHeaders } from "./param-headers.ts";

/** A server that offers more is treated as broken. */
export interface ListingLimits {
  readonly pages: number;
  readonly entries: number;
  /** Of all lists together, as JSON. */
  readonly characters: number;
}

export const listingLimits: ListingLimits = { pages: 1000, entries: 20_000, characters: 64 * 1024 * 1024 };
const ENTRY_LIMITS = { nodes: 100_000, depth: 100 };
const MAX_PROBLEMS = 20;
/** Far more than a model can choose from. Further ones are left out. */
const SKILL_LIMIT = 500;
export type OfferLists = Pick<ServerOffer, "tools" | "resources" | "resourceTemplates" | "prompts">;

export interface ListingOptions {
  readonly server: string;
  readonly capabilities: JsonObject;
  readonly ask: (method: string, params: JsonObject) => Promise<JsonObject>;
  /** Whether arguments are also sent as headers. A tool with invalid header annotations cannot be called then. */
  readonly paramHeaders: boolean;
  readonly limits: ListingLimits;
  /** The previous lists, kept for a list that fails. Absent: this is the first listing. */
  readonly before?: OfferLists | undefined;
}

type ListKind = (typeof LISTS)[number];

const LISTS = [
  { key: "tools", method: "tools/list", capability: "tools", id: "name" },
  { key: "resources", method: "resources/list", capability: "resources", id: "uri" },
  { key: "resourceTemplates", method: "resources/templates/list", capability: "resources", id: "uriTemplate" },
  { key: "prompts", method: "prompts/list", capability: "prompts", id: "name" },
  { key: "skills", method: "skills/list", capability: "extensions", id: "uri" },
] as const;

/**
 * Reads all pages of all lists. Malformed entries are left out and reported in `problems`, and a list that fails does
 * not affect the others. Throws if a list is endless, and if the tools cannot be listed the first time: that must not
 * be recorded as a server without tools.
 */
export async function listOffer(options: ListingOptions) {
  const { server, before, capabilities } = options;
  const room = { ...options.limits };
  const problems: string[] = [];
  const lists: Record<string, readonly JsonObject[]> = {};
  for (const list of LISTS) {
    const { key, method } = list;
    const known = key === "skills" ? (before?.tools ?? []).filter(isSkill) : (before?.[key] ?? []);
    lists[key] = [];
    if (key === "skills" ? !hasSkills(capabilities) : !isRecord(capabilities[list.capability])) continue;
    try {
      lists[key] = selectValidEntries(list, await fetchEntries(list, options, room), options.paramHeaders, problems);
    } catch (thrown) {
      if (!(thrown instanceof QmError) || thrown.code !== "action_failed") throw thrown;
      lists[key] = known;
      // Most servers with resources have no templates and do not know the method.
      const isUnknown = thrown.details.mcp_code === -32601;
      if (key === "tools" && before === undefined && !isUnknown) throw toolsUnlistedError(server, thrown);
      if (!isUnknown || (key === "tools" && known.length > 0))
        problems.push(`${method} failed: ${getErrorMessage(thrown)}`);
    }
  }
  const { skills = [], ...others } = lists as unknown as OfferLists & { readonly skills?: readonly OfferedTool[] };
  const tools = [...others.tools, ...skills];
  // The files of skills are read by the skills' own actions, after approval.
  const isOther = (uri: unknown) => !hasSkills(capabilities) || !isSkillUri(String(uri), skills);
  const resources = others.resources.filter(({ uri }) => isOther(uri));
  const resourceTemplates = others.resourceTemplates.filter(({ uriTemplate }) => isOther(uriTemplate));
  return { lists: { ...others, tools, resources, resourceTemplates }, problems };
}

const isSkill = ({ skill }: OfferedTool): boolean => skill !== undefined;

async function fetchEntries(list: ListKind, options: ListingOptions, room: { entries: number; characters: number }) {
  const { key, method } = list;
  const { server, ask, limits } = options;
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
    if (key === "skills" && entries.length >= SKILL_LIMIT) return entries;
    // An empty cursor is a cursor too.
    if (typeof result.nextCursor !== "string") return entries;
    cursor = result.nextCursor;
    if (seen.has(cursor)) throw endlessListError(server, method, "the same page twice");
    seen.add(cursor);
  }
}

function toolsUnlistedError(server: string, thrown: QmError): QmError {
  const message = `server ${server} does not list its tools: ${getErrorMessage(thrown)}`;
  const hint = `Try it again later. Run {qm servers start ${server}} to try it now.`;
  return new QmError("server_failed", message, { hint, details: thrown.details });
}

function endlessListError(server: string, method: string, what: string): QmError {
  const hint = "The server does not end its lists, or offers more than can be handled. Report it to its author.";
  return new QmError("too_large", `${server} offers too much: ${what} in ${method}`, { hint });
}

function selectValidEntries(list: ListKind, entries: readonly unknown[], paramHeaders: boolean, problems: string[]) {
  const selected = new Map<unknown, JsonObject>();
  const isSkillList = list.key === "skills";
  if (isSkillList && entries.length > SKILL_LIMIT) problems.push(`skills: only the first ${SKILL_LIMIT} were taken`);
  for (const [at, raw] of (isSkillList ? entries.slice(0, SKILL_LIMIT) : entries).entries()) {
    // Some servers write `null` for an absent field. `skill` of a tool is a field of ours.
    const fields = Object.entries(isRecord(raw) ? raw : {}).filter(
      ([key, value]) => value !== null && (key !== "skill" || list.key !== "tools"),
    );
    const entry = Object.fromEntries(fields);
    const id = entry[list.id];
    const invalid = isRecord(raw) ? checkEntry(list, entry, paramHeaders) : "is not an object";
    const problem = invalid ?? (selected.has(id) ? "is listed twice" : undefined);
    if (problem === undefined) selected.set(id, isSkillList ? toSkillDefinition(entry) : (entry as JsonObject));
    else if (problems.length < MAX_PROBLEMS) {
      const label = typeof id === "string" ? JSON.stringify(toOneLine(id)) : `number ${at + 1}`;
      problems.push(`${list.key}: ${label} ${problem}`);
    }
  }
  return [...selected.values()];
}

function checkEntry({ key, id }: ListKind, entry: Record<string, unknown>, paramHeaders: boolean): string | undefined {
  if (isLargerThan(entry, ENTRY_LIMITS)) return "is too large or nested too deep";
  if (key === "skills") return findSkillProblem(entry);
  if (key !== "tools") return typeof entry[id] === "string" && entry[id] !== "" ? undefined : `has no ${id}`;
  const problem = checkOfferedTool(entry);
  if (problem !== undefined || !paramHeaders) return problem;
  const scan = findParamHeaders((entry as OfferedTool).inputSchema);
  return scan.ok ? undefined : `cannot be called over HTTP: ${toOneLine(scan.problem)}`;
}

function findSkillProblem(entry: Record<string, unknown>): string | undefined {
  try {
    return checkOfferedTool(toSkillDefinition(entry));
  } catch (thrown) {
    return getErrorMessage(thrown);
  }
}
