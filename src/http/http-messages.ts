import { type ApprovalQuery, type ApprovalState, approvalStates } from "../approval/approval.ts";
import { toVisibleJson } from "../core/display-text.ts";
import { errorCodes, getErrorMessage, QmError } from "../core/errors.ts";
import { omitUndefined } from "../core/json.ts";
import { quoteName } from "../core/names.ts";

const BODY_BYTES = 64 * 1024;

/** The text of a request's body. Throws `unsupported_content`, `too_large` and `cancelled`, and then stops reading. */
export async function readTextBody(request: Request, type: string, limit = BODY_BYTES): Promise<string> {
  const [given = ""] = (request.headers.get("content-type") ?? "").split(";");
  if (given.trim().toLowerCase() !== type)
    throw new QmError("unsupported_content", `the body must be ${type}`, { hint: `Send Content-Type: ${type}.` });
  const bytes = await readLimitedBytes(request, limit).catch((thrown: unknown) => {
    throw thrown instanceof QmError ? thrown : new QmError("cancelled", "the body was not sent to its end");
  });
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new QmError("unsupported_content", "the body is not UTF-8 text");
  }
}

async function readLimitedBytes({ body, headers }: Request, limit: number): Promise<Buffer> {
  const tooLarge = new QmError("too_large", `a body has at most ${limit} bytes`);
  if (Number(headers.get("content-length") ?? 0) > limit) throw tooLarge;
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = body?.getReader();
  for (let next = await reader?.read(); next?.done === false; next = await reader?.read()) {
    size += next.value.length;
    if (size > limit) throw tooLarge;
    chunks.push(next.value);
  }
  return Buffer.concat(chunks, size);
}

const PAGE_LIMITS = { standard: 100, most: 500 } as const;
const LONGEST_WAIT_MS = 55_000;

/** Throws `invalid_arguments` for a parameter that would otherwise be ignored. */
export function parseListQuery(query: URLSearchParams): ApprovalQuery & { readonly limit: number } {
  requireKnownParameters(query, ["state", "session", "user", "action", "after", "limit"]);
  const states = query.getAll("state").flatMap((text) => text.split(","));
  const { session, user, action, after } = Object.fromEntries(query);
  const state = states.length === 0 ? undefined : states.map(parseState);
  const limit = parseWholeNumber(query, "limit", 1, PAGE_LIMITS.most) ?? PAGE_LIMITS.standard;
  return omitUndefined({ limit, state, session, user, action, after });
}

/** Which portion of a call's files is wanted. */
export function parseFilesQuery(query: URLSearchParams): { readonly after?: string } {
  requireKnownParameters(query, ["after"]);
  return omitUndefined({ after: query.get("after") ?? undefined });
}

/** Whether the secrets of a call are to be shown. */
export function isReveal(query: URLSearchParams): boolean {
  requireKnownParameters(query, ["reveal"]);
  const reveal = query.get("reveal");
  if (reveal === null || reveal === "true") return reveal !== null;
  throw new QmError("invalid_arguments", "reveal must be true, or absent");
}

/** How long the client waits for an outcome. */
export function parseWaitMs(query: URLSearchParams): number {
  requireKnownParameters(query, ["wait_ms"]);
  return parseWholeNumber(query, "wait_ms", 0, LONGEST_WAIT_MS) ?? 0;
}

function requireKnownParameters(query: URLSearchParams, known: readonly string[]): void {
  for (const name of query.keys()) {
    const hint = `Known: ${known.join(", ")}.`;
    if (!known.includes(name)) throw new QmError("invalid_arguments", `unknown parameter ${quoteName(name)}`, { hint });
    if (name !== "state" && query.getAll(name).length > 1)
      throw new QmError("invalid_arguments", `${name} is given more than once`);
  }
}

function parseState(text: string): ApprovalState {
  const found = approvalStates.find((state) => state === text);
  if (found !== undefined) return found;
  throw new QmError("invalid_arguments", `unknown state ${quoteName(text)}`, {
    hint: `States: ${approvalStates.join(", ")}.`,
  });
}

function parseWholeNumber(query: URLSearchParams, name: string, from: number, to: number): number | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= from && value <= to) return value;
  throw new QmError("invalid_arguments", `${name} must be a whole number from ${from} to ${to}`);
}

const NO_STORE_HEADERS = { "cache-control": "no-store", "x-content-type-options": "nosniff" };

/** JSON without invisible characters, so that it is safe on a terminal. */
export const respondJson = (value: unknown): Response => respondJsonText(toVisibleJson(value));

export const respondJsonText = (text: string): Response =>
  new Response(text, { headers: { ...NO_STORE_HEADERS, "content-type": "application/json" } });

/** An error as problem JSON. The default status is that of its code. */
export function problem(error: QmError, status?: number, headers: Readonly<Record<string, string>> = {}): Response {
  return Response.json(error.toProblem(), {
    status: status ?? errorCodes[error.code].http,
    headers: { ...NO_STORE_HEADERS, "content-type": "application/problem+json", ...headers },
  });
}

/** Sends our own errors to the client. Others are reported, and the client learns only that there was one. */
export function respondError(thrown: unknown, onProblem: (problem: string) => void): Response {
  if (thrown instanceof QmError) return problem(thrown);
  onProblem(`a request could not be answered: ${getErrorMessage(thrown)}`);
  return problem(new QmError("internal", "this could not be answered"));
}
