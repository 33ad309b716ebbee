import { type ApprovalQuery, type ApprovalState, approvalStates } from "../approval/approval.ts";
import { toVisibleJson } from "../core/display-text.ts";
import { errorCodes, getErrorMessage, QmError } from "../core/errors.ts";
import { quoteName } from "../core/names.ts";

const BODY_BYTES = 64 * 1024;

/** The text of a request's body. Throws `unsupported_content`, `too_large` and `cancelled`; it is not read further then. */
export async function readTextBody(request: Request, type: string): Promise<string> {
  const [given = ""] = (request.headers.get("content-type") ?? "").split(";");
  if (given.trim().toLowerCase() !== type)
    throw new QmError("unsupported_content", `the body must be ${type}`, { hint: `Send Content-Type: ${type}.` });
  const bytes = await readLimitedBytes(request).catch((thrown: unknown) => {
    throw thrown instanceof QmError ? thrown : new QmError("cancelled", "the body was not sent to its end");
  });
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new QmError("unsupported_content", "the body is not UTF-8 text");
  }
}

async function readLimitedBytes({ body, headers }: Request): Promise<Buffer> {
  if (Number(headers.get("content-length") ?? 0) > BODY_BYTES) throw createTooLargeError();
  const chunks: Uint8Array[] = [];
  if (body === null) return Buffer.alloc(0);
  let size = 0;
  const reader = body.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    size += next.value.length;
    if (size > BODY_BYTES) throw createTooLargeError();
    chunks.push(next.value);
  }
  return Buffer.concat(chunks, size);
}

function createTooLargeError(): QmError {
  return new QmError("too_large", `a body has at most ${BODY_BYTES} bytes`);
}

const PAGE_LIMITS = { standard: 100, most: 500 } as const;
const LONGEST_WAIT_MS = 55_000;

/** The choice of a list, with how many a page has. Throws `invalid_arguments` for what would silently choose otherwise. */
export function parseListQuery(given: URLSearchParams): ApprovalQuery & { readonly limit: number } {
  requireKnownParameters(given, ["state", "session", "user", "action", "after", "limit"]);
  const states = given.getAll("state").flatMap((text) => text.split(","));
  const { session, user, action, after } = Object.fromEntries(given);
  return {
    limit: parseWholeNumber(given, "limit", 1, PAGE_LIMITS.most) ?? PAGE_LIMITS.standard,
    ...(states.length === 0 ? {} : { state: states.map(parseState) }),
    ...(session === undefined ? {} : { session }),
    ...(user === undefined ? {} : { user }),
    ...(action === undefined ? {} : { action }),
    ...(after === undefined ? {} : { after }),
  };
}

/** Whether the secrets in a call are to be shown. */
export function isReveal(given: URLSearchParams): boolean {
  requireKnownParameters(given, ["reveal"]);
  const reveal = given.get("reveal");
  if (reveal === null || reveal === "true") return reveal !== null;
  throw new QmError("invalid_arguments", "reveal must be true, or absent");
}

/** How long an outcome is waited for. */
export function parseWaitMs(given: URLSearchParams): number {
  requireKnownParameters(given, ["wait_ms"]);
  return parseWholeNumber(given, "wait_ms", 0, LONGEST_WAIT_MS) ?? 0;
}

function requireKnownParameters(given: URLSearchParams, known: readonly string[]): void {
  for (const name of given.keys()) {
    if (!known.includes(name))
      throw new QmError("invalid_arguments", `${quoteName(name)} is no parameter here`, {
        hint: `Known: ${known.join(", ")}.`,
      });
    if (name !== "state" && given.getAll(name).length > 1)
      throw new QmError("invalid_arguments", `${name} is given more than once`);
  }
}

function parseState(text: string): ApprovalState {
  const found = approvalStates.find((state) => state === text);
  if (found !== undefined) return found;
  throw new QmError("invalid_arguments", `${quoteName(text)} is no state`, {
    hint: `States: ${approvalStates.join(", ")}.`,
  });
}

function parseWholeNumber(given: URLSearchParams, name: string, from: number, to: number): number | undefined {
  const text = given.get(name);
  if (text === null) return undefined;
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= from && value <= to) return value;
  throw new QmError("invalid_arguments", `${name} must be a whole number from ${from} to ${to}`);
}

const NO_STORE_HEADERS = { "cache-control": "no-store", "x-content-type-options": "nosniff" };

/** JSON that shows on a terminal what is in it, also where nobody parses it. */
export function respondJson(value: unknown): Response {
  return respondJsonText(toVisibleJson(value));
}

export function respondJsonText(text: string): Response {
  return new Response(text, { headers: { ...NO_STORE_HEADERS, "content-type": "application/json" } });
}

/** What went wrong, with the status of its code unless another one says more. */
export function problem(error: QmError, status?: number, headers: Readonly<Record<string, string>> = {}): Response {
  return Response.json(error.toProblem(), {
    status: status ?? errorCodes[error.code].http,
    headers: { ...NO_STORE_HEADERS, "content-type": "application/problem+json", ...headers },
  });
}

/** For what was thrown while answering. What is nobody's to know is told elsewhere. */
export function respondError(thrown: unknown, onProblem: (problem: string) => void): Response {
  if (thrown instanceof QmError) return problem(thrown);
  onProblem(`a request could not be answered: ${getErrorMessage(thrown)}`);
  return problem(new QmError("internal", "this could not be answered"));
}
