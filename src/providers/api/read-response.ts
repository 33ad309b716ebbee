import { QmError } from "../../core/errors.ts";
import { WithContent } from "../../core/handler-result.ts";
import {
  clip,
  hasWideObject,
  isLargerThan,
  isRecord,
  type Json,
  type JsonObject,
  omitUndefined,
} from "../../core/json.ts";
import { type Credentials, maskCredentials } from "./authorize.ts";
import type { ApiOperation } from "./compiled-api.ts";
import type { ApiResponse } from "./send-request.ts";

const EVENT_LIMIT = 2_000;
const ERROR_BODY_CHARS = 4_000;
const SHOWN_HEADERS = ["content-type", "etag", "last-modified", "link", "location", "retry-after", "x-request-id"];

interface Answered {
  readonly api: string;
  readonly operation: ApiOperation;
  readonly server: string;
  readonly args: JsonObject;
  readonly credentials: Credentials;
}

/** The result of a call. Throws `action_failed`, `needs_login` or `server_failed` for an error status. */
export function readApiResponse(response: ApiResponse, call: Answered): unknown {
  const { status } = response;
  const type = (response.headers["content-type"] ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
  const decode = (bytes: Uint8Array) =>
    maskCredentials(decodeText(bytes, response.headers["content-type"]), call.credentials);
  const mask = (text: string) => maskCredentials(text, call.credentials);
  const headers = Object.fromEntries(
    SHOWN_HEADERS.flatMap((name) =>
      response.headers[name] === undefined ? [] : [[name, mask(response.headers[name])]],
    ),
  );
  if (status >= 400) throw createStatusError(response, type, call, decode);
  if (/^(?:image|audio)\//.test(type) && response.body.length > 0) {
    const data = Buffer.from(response.body).toString("base64");
    const kind = type.startsWith("image/") ? "image" : "audio";
    const shown = { status, headers, media: kind, bytes: response.body.length };
    return new WithContent(shown, { blocks: [{ type: kind, data, mimeType: type }] });
  }
  const body = readBody(response, type, decode);
  const next = findNextPage(call.operation, call.args, headers.link, body, call.server);
  return {
    status,
    headers,
    body,
    ...(response.truncated ? { truncated: true } : {}),
    ...(next === undefined ? {} : { next: { args: next } }),
  };
}

/** The text without the mark for its byte order, which JSON does not know. */
function decodeText(bytes: Uint8Array, contentType = ""): string {
  const [, charset = "utf-8"] = /;\s*charset\s*=\s*"?([\w.:-]{1,40})/i.exec(contentType) ?? [];
  try {
    return new TextDecoder(charset).decode(bytes);
  } catch {
    return new TextDecoder().decode(bytes);
  }
}

function readBody({ body, truncated }: ApiResponse, type: string, decode: (bytes: Uint8Array) => string): Json {
  if (body.length === 0) return null;
  const isText = /^text\/|json|xml|yaml|javascript|urlencoded|sdp/.test(type) || (type === "" && !body.includes(0));
  if (!isText) return { base64: Buffer.from(body).toString("base64"), bytes: body.length, content_type: type };
  const text = decode(body);
  if (type === "text/event-stream") return readEvents(text);
  if (!type.includes("json") || truncated) return text;
  const parsed = parseJson(text);
  return parsed === undefined ? text : parsed;
}

function parseJson(text: string): Json | undefined {
  try {
    const parsed: unknown = JSON.parse(text);
    return isLargerThan(parsed, { nodes: 500_000, depth: 200 }) || hasWideObject(parsed) ? undefined : (parsed as Json);
  } catch {
    return undefined;
  }
}

/** Server-sent events as a list, up to a limit. */
function readEvents(text: string): Json {
  const events: Json[] = [];
  let event: string | undefined;
  let data: string[] = [];
  for (let at = 0; at <= text.length; ) {
    const found = text.indexOf("\n", at);
    const end = found < 0 ? text.length : found;
    const line = text.slice(at, text[end - 1] === "\r" ? end - 1 : end);
    at = end + 1;
    if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
    if (line.startsWith("event:")) event ??= line.slice(6).replace(/^ /, "");
    if (line !== "" && at <= text.length) continue;
    const joined = data.join("\n");
    if (joined !== "" && joined !== "[DONE]") {
      if (events.length === EVENT_LIMIT) return { events, limited: true };
      events.push({ ...omitUndefined({ event }), data: parseJson(joined) ?? joined });
    }
    event = undefined;
    data = [];
  }
  return { events };
}

function createStatusError(
  response: ApiResponse,
  type: string,
  { api, operation }: Answered,
  decode: (bytes: Uint8Array) => string,
): QmError {
  const { status } = response;
  const text = /json|text|xml/.test(type) ? decode(response.body) : "";
  const parsed = text.length <= ERROR_BODY_CHARS && type.includes("json") ? parseJson(text) : undefined;
  const said = parsed === undefined ? clip(text.replace(/\s+/g, " ").trim(), 300) : findMessage(parsed);
  const seconds = Number(response.headers["retry-after"]);
  const details = {
    status,
    ...(text === "" ? {} : { body: parsed ?? clip(text, ERROR_BODY_CHARS) }),
    ...(Number.isFinite(seconds) && seconds >= 0 ? { retry_after_s: seconds } : {}),
  };
  const message = `${api} answered ${status} to ${operation.method} ${operation.path}${said ? `: ${said}` : ""}`;
  if (status === 401)
    return new QmError("needs_login", message, {
      hint: `An operator must correct the credentials in apis.${api}.auth.`,
      details,
    });
  if (status === 429 || status === 503)
    return new QmError("server_failed", message, { hint: "Wait, then try again.", details });
  const hint =
    status >= 500
      ? "The server failed. It may have done part of the work."
      : status === 404
        ? "Check the identifiers in the arguments."
        : status === 403
          ? "The credentials do not allow this."
          : "Correct the arguments as the message says.";
  return new QmError("action_failed", message, { hint, details });
}

function findMessage(body: Json): string {
  if (typeof body === "string") return clip(body, 300);
  if (!isRecord(body)) return "";
  const inner = isRecord(body.error) ? body.error : {};
  const found = [inner.message, body.message, body.error, body.detail, body.title].find(
    (each) => typeof each === "string",
  );
  return typeof found === "string" ? clip(found, 300) : "";
}

/** The arguments for the next page, if the answer tells where it is and the operation has the parameters for it. */
function findNextPage(
  operation: ApiOperation,
  args: JsonObject,
  link: string | undefined,
  body: unknown,
  server: string,
): JsonObject | undefined {
  const address = readNextLink(link) ?? (isRecord(body) ? readNextAddress(body) : undefined);
  if (address !== undefined) return readQuery(operation, args, address, server);
  if (!isRecord(body)) return undefined;
  const places = listPlaces(operation);
  for (const [names, value] of listCursors(body)) {
    const argument = places.get(names.find((name) => places.has(name)) ?? "");
    // Some answers repeat the cursor of the request.
    if (argument !== undefined && args[argument] !== value) return { ...args, [argument]: value };
  }
  return undefined;
}

/** The arguments that can take a cursor, by their plain names. Parameters of the query come before fields of the body. */
function listPlaces({ parameters, body }: ApiOperation): ReadonlyMap<string, string> {
  const query = parameters.filter((each) => each.in === "query").map(({ name, argument }) => [name, argument] as const);
  const fields = Object.entries(body?.fields ?? {}).map(([argument, name]) => [name, argument] as const);
  // The first of several equal names counts.
  return new Map([...query, ...fields].reverse().map(([name, argument]) => [toPlain(name), argument]));
}

/** Addresses may have commas, which also separate links. */
const readNextLink = (link = ""): string | undefined =>
  [...link.slice(0, 8_192).matchAll(/<([^<>]*)>([^<]*)/g)].find(([, , more = ""]) =>
    /;\s*rel\s*=\s*(?:"(?:[^"]*\s)?next[\s"]|next\b)/i.test(more),
  )?.[1];

function readNextAddress(body: Record<string, unknown>): string | undefined {
  const links = isRecord(body.links) ? body.links : isRecord(body._links) ? body._links : {};
  const linked = isRecord(links.next) ? links.next.href : links.next;
  const candidates = [body.next_page_uri, body.next_page_url, body["@odata.nextLink"], linked, body.next];
  return candidates.find((each): each is string => typeof each === "string" && /^(?:https?:\/)?\//.test(each));
}

function readQuery(operation: ApiOperation, args: JsonObject, address: string, server: string): JsonObject | undefined {
  if (!URL.canParse(address, server)) return undefined;
  const url = new URL(address, server);
  if (url.origin !== new URL(server).origin) return undefined;
  const found = operation.parameters.flatMap(({ argument, name, in: place }): [string, Json][] => {
    const text = place === "query" ? url.searchParams.get(name) : null;
    // Lists stay as they are from page to page.
    if (text === null || (Object.hasOwn(args, argument) && typeof args[argument] === "object")) return [];
    const { properties } = operation.schema;
    const schema = isRecord(properties) && Object.hasOwn(properties, argument) ? properties[argument] : undefined;
    const isNumber = isRecord(schema) && JSON.stringify(schema).match(/"(?:integer|number)"/) !== null;
    return [[argument, isNumber && /^-?\d{1,15}$/.test(text) ? Number(text) : text]];
  });
  return found.length === 0 ? undefined : { ...args, ...Object.fromEntries(found) };
}

const toPlain = (name: string) => name.toLowerCase().replace(/[^a-z0-9]/g, "");

type Cursor = readonly [names: readonly string[], value: string | number];

/** How many keys of an answer are looked at, and how much of each. */
const CURSOR_KEYS = 10_000;
const KEY_CHARS = 100;

/** The positions at which the next page may begin, each with the names of the parameters that take it. */
function listCursors(body: Record<string, unknown>): readonly Cursor[] {
  if (body.has_more === false || body.more === false) return [];
  const found: Cursor[] = [];
  let left = CURSOR_KEYS;
  const visit = (part: Record<string, unknown>, isNext: boolean, depth: number): void => {
    for (const [key, value] of Object.entries(part).slice(0, 100)) {
      if (--left < 0) return;
      const plain = toPlain(key.slice(0, KEY_CHARS));
      if (isRecord(value) && depth < 3) visit(value, isNext || plain.startsWith("next"), depth + 1);
      if ((typeof value !== "string" && typeof value !== "number") || value === "") continue;
      if ((isNext && POSITIONS.has(plain)) || plain.startsWith("next") || CURSORS.has(plain))
        found.push([listNames(plain), value]);
    }
  };
  visit(body, false, 0);
  const data = Array.isArray(body.data) ? body.data.at(-1) : undefined;
  const last = body.last_id ?? (isRecord(data) ? data.id : undefined);
  if (body.has_more === true && (typeof last === "string" || typeof last === "number"))
    found.push([["after", "afterid", "startingafter"], last]);
  const [offset, size, total] = [
    body.offset ?? body.startAt,
    body.limit ?? body.maxResults,
    body.total ?? body.total_count,
  ];
  if (typeof offset === "number" && typeof size === "number" && size > 0) {
    const isMore = body.more === true || body.isLast === false || (typeof total === "number" && offset + size < total);
    if (isMore) found.push([["offset", "startat"], offset + size]);
  }
  return found;
}

/** Keys that name the next page without saying so. */
const CURSORS: ReadonlySet<string> = new Set(["continue", "cursor", "after", "aftercursor", "endcursor"]);

/** Keys inside of what is named next. */
const POSITIONS: ReadonlySet<string> = new Set([
  "offset",
  "page",
  "pagenumber",
  "startingafter",
  "marker",
  "token",
  "pagetoken",
  "start",
  "startat",
  "skip",
]);

function listNames(key: string): readonly string[] {
  const base = key.replace(/^next(?=.)/, "").replace(/^page(?=.)/, "");
  const cursors = CURSORS.has(base) ? ["cursor", "after"] : [];
  return [key, ...[base, ...cursors].flatMap((each) => ["", "page", "start", "starting", "next"].map((a) => a + each))];
}
