import type { Abortable } from "../../core/abortable.ts";
import { raceAbort } from "../../core/async.ts";
import { toOneLine } from "../../core/display-text.ts";
import { getErrorMessage, QmError, toErrorDetails } from "../../core/errors.ts";
import { clip, isRecord, type Json, omitUndefined } from "../../core/json.ts";
import { redactJson, type ValueRedactor } from "./redact-values.ts";
import type { Sdk } from "./sdk-client.ts";

/** The signal's reason if it is a `QmError`, else `cancelled`. */
export const toAbortError = ({ reason }: Abortable): QmError =>
  reason instanceof QmError ? reason : new QmError("cancelled", "the call was cancelled");

/** Like `raceAbort`, but rejects with a `QmError` when the signal aborts. */
export async function waitUnlessAborted<T>(work: Promise<T>, signal: Abortable | undefined): Promise<T> {
  try {
    return await raceAbort(work, signal);
  } catch (thrown) {
    throw signal?.aborted === true && thrown === signal.reason ? toAbortError(signal) : thrown;
  }
}

export const wrapServerError = (thrown: unknown): QmError =>
  thrown instanceof QmError ? thrown : new QmError("server_failed", getErrorMessage(thrown), { cause: thrown });

/** The server has forgotten the session and refused the request without acting on it. */
export class SessionLostError extends Error {}

export class UnreachableError extends Error {}

/** The error that a server answered a request with. */
export class RpcError extends Error {
  readonly code: number;
  readonly data: unknown;

  constructor({ code, message, data }: { readonly code: number; readonly message: string; readonly data?: unknown }) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

type FailureContext = { readonly server: string; readonly hide: ValueRedactor; readonly hasSession: boolean };

/** Turns an error of the SDK or a transport into a `QmError`. The server's text is redacted, cut and put on one line. */
export function toServerFailure(sdk: Sdk, thrown: unknown, { server, hide, hasSession }: FailureContext): QmError {
  if (thrown instanceof QmError) return thrown;
  const quote = (text: string) => clip(toOneLine(hide(text)), 400);
  if (thrown instanceof RpcError || thrown instanceof sdk.ProtocolError)
    return new QmError("action_failed", `${server}: ${quote(thrown.message) || "it answered with an error"}`, {
      details: toErrorDetails({ mcp_code: thrown.code, mcp_data: toRedactedJson(thrown.data, hide) }),
    });
  if (thrown instanceof sdk.UnauthorizedError) return loginRequiredError(server);
  if (thrown instanceof sdk.SdkHttpError) return toHttpFailure(sdk, thrown, server, quote, hasSession);
  if (thrown instanceof sdk.SdkError) {
    const { code, message } = thrown;
    if (code === sdk.SdkErrorCode.InvalidResult || code === sdk.SdkErrorCode.UnsupportedResultType)
      return invalidResultError(server, quote(message));
  }
  return toUnreachableError(server, thrown, quote);
}

export const invalidResultError = (server: string, why: string): QmError =>
  new QmError("invalid_output", `server ${server} sent an invalid result: ${why}`);

export function loginRequiredError(server: string, why = "needs a login"): QmError {
  const hint = `A person must log in to it first. Tell {user} so. Run {qm servers login ${server}}.`;
  return new QmError("needs_login", `server ${server} ${why}`, { hint });
}

type HttpError = InstanceType<Sdk["SdkHttpError"]>;

function toHttpFailure(sdk: Sdk, thrown: HttpError, server: string, quote: ValueRedactor, hasSession: boolean) {
  const { status, text } = thrown.data;
  const failure = (message: string, hint: string, cause?: Error) =>
    new QmError("server_failed", `server ${server} ${message}`, { hint, cause });
  if (thrown.code === sdk.SdkErrorCode.ClientHttpAuthentication)
    return loginRequiredError(server, "refuses the stored login");
  if (status === 401)
    return failure("refuses the configured credentials (HTTP 401)", `Correct \`servers.${server}.headers\`.`);
  if (status === 404 && hasSession)
    return failure("has forgotten this session", "Call it again to begin a new session.", new SessionLostError());
  const body = typeof text === "string" && text !== "" ? `: ${quote(text)}` : "";
  const isWrongUrl = status === 404 || status === 405;
  const hint = isWrongUrl ? `Check that \`servers.${server}.url\` is its MCP endpoint.` : "Try again later.";
  return failure(`answered HTTP ${status ?? "without a status"}${body}`, hint);
}

function toUnreachableError(server: string, thrown: unknown, quote: (text: string) => string): QmError {
  const code = findSystemCode(thrown);
  const hint = "Try again. {qm servers list} shows its state.";
  if (code === undefined)
    return new QmError("server_failed", `server ${server} failed: ${quote(getErrorMessage(thrown))}`, { hint });
  return new QmError("server_failed", `server ${server} cannot be reached (${code})`, {
    hint: NEVER_ARRIVED.includes(code) ? hint : "It may have had an effect. Check before you call it again.",
    cause: new UnreachableError(code),
  });
}

/** Other codes may occur after the server has read the request. */
const NEVER_ARRIVED = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "ENETUNREACH", "EHOSTUNREACH"];

/** Codes of the system, the HTTP client and TLS. The SDK's own codes say less. */
const SYSTEM_CODE =
  /^(?:E[A-Z]+|EAI_[A-Z]+|UND_ERR_\w+|CERT_\w+|ERR_TLS_\w+|DEPTH_ZERO_\w+|SELF_SIGNED_\w+|UNABLE_TO_\w+)$/;

function findSystemCode(thrown: unknown): string | undefined {
  let cause = thrown;
  for (let depth = 0; depth < 8 && isRecord(cause); depth++) {
    if (typeof cause.code === "string" && SYSTEM_CODE.test(cause.code)) return cause.code;
    cause = cause.cause ?? (isRecord(cause.data) ? cause.data.cause : undefined);
  }
  return undefined;
}

function toRedactedJson(data: unknown, hide: ValueRedactor): Json | undefined {
  try {
    return data === undefined ? undefined : redactJson(JSON.parse(JSON.stringify(data)) as Json, hide);
  } catch {
    return undefined;
  }
}

export const withServerOutput = (
  { code, message, hintTemplate: hint, details, cause }: QmError,
  output: string,
): QmError => new QmError(code, `${message} (${output})`, { ...omitUndefined({ hint }), details, cause });
