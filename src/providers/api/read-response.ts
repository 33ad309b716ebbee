import { QmError } from "../../core/errors.ts";
import { WithContent } from "../../core/handler-result.ts";
import { clip, hasWideObject, isLargerThan, isRecord, type Json, type JsonObject } from "../../core/json.ts";
import { type Credentials, maskCredentials } from "./authorize.ts";
import type { ApiOperation } from "./compiled-api.ts";
import { findNextPage } from "./next-page.ts";
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
  const mask = (text: string) => maskCredentials(text, call.credentials);
  const headers = Object.fromEntries(
    SHOWN_HEADERS.flatMap((name) =>
      response.headers[name] === undefined ? [] : [[name, mask(response.headers[name])]],
    ),
  );
  if (status >= 400) throw createStatusError(response, type, call, mask);
  if (/^(?:image|audio)\//.test(type) && response.body.length > 0) {
    const data = Buffer.from(response.body).toString("base64");
    const kind = type.startsWith("image/") ? "image" : "audio";
    const shown = { status, headers, media: kind, bytes: response.body.length };
    return new WithContent(shown, { blocks: [{ type: kind, data, mimeType: type }] });
  }
  const body = readBody(response, type, mask);
  const next = findNextPage(call.operation, call.args, response.headers.link, body, call.server);
  return {
    status,
    headers,
    body,
    ...(response.truncated ? { truncated: true } : {}),
    ...(next === undefined ? {} : { next: { args: next } }),
  };
}

function readBody({ body, truncated }: ApiResponse, type: string, mask: (text: string) => string): Json {
  if (body.length === 0) return null;
  const isText = /^text\/|json|xml|yaml|javascript|urlencoded|sdp/.test(type) || (type === "" && !body.includes(0));
  if (!isText) return { base64: Buffer.from(body).toString("base64"), bytes: body.length, content_type: type };
  const text = mask(Buffer.from(body).toString("utf8"));
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
  for (const block of text.split(/\r?\n\r?\n/)) {
    const lines = block.split(/\r?\n/);
    const read = (field: string) =>
      lines
        .filter((line) => line.startsWith(`${field}:`))
        .map((line) => line.slice(field.length + 1).replace(/^ /, ""));
    const data = read("data").join("\n");
    if (data === "" || data === "[DONE]") continue;
    if (events.length === EVENT_LIMIT) return { events, limited: true };
    const [event] = read("event");
    events.push({ ...(event === undefined ? {} : { event }), data: parseJson(data) ?? data });
  }
  return { events };
}

function createStatusError(
  response: ApiResponse,
  type: string,
  { api, operation }: Answered,
  mask: (text: string) => string,
): QmError {
  const { status } = response;
  const text = /json|text|xml/.test(type) ? mask(Buffer.from(response.body).toString("utf8")) : "";
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
