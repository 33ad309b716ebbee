import { toOneLine } from "../../core/display-text.ts";
import { getErrorMessage, QmError, toErrorDetails } from "../../core/errors.ts";
import { clip, isRecord, type Json } from "../../core/json.ts";
import { redactJson, type ValueRedactor } from "./redact-values.ts";
import type { Sdk } from "./sdk-client.ts";

/** Why a signal was aborted, as an error of ours: whoever aborts without one has simply given up. */
export function toAbortError(signal: AbortSignal): QmError {
  return signal.reason instanceof QmError ? signal.reason : new QmError("cancelled", "the call was given up");
}

/** A wait that ends when the signal does. The work itself goes on. */
export function waitUnlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(toAbortError(signal));
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

/** Whatever was thrown, as an error of ours. */
export function wrapServerError(thrown: unknown): QmError {
  return thrown instanceof QmError ? thrown : new QmError("server_failed", getErrorMessage(thrown), { cause: thrown });
}

/** The server does not know the session any more, and so refused the request without doing anything. */
export class SessionLostError extends Error {}

/** There is no way to the server any more. */
export class UnreachableError extends Error {}

interface FailureContext {
  readonly server: string;
  /** Removes what nobody may read. */
  readonly hide: ValueRedactor;
  readonly session: boolean;
}

/** Whatever a client or a transport threw, as an error of ours. What a server said is quoted on one line, and bounded. */
export function toServerFailure(sdk: Sdk, thrown: unknown, { server, hide, session }: FailureContext): QmError {
  if (thrown instanceof QmError) return thrown;
  const quoteServer = (text: string) => clip(toOneLine(hide(text)), 400);
  if (thrown instanceof sdk.ProtocolError)
    return new QmError("action_failed", `${server}: ${quoteServer(thrown.message) || "it answered with an error"}`, {
      details: toErrorDetails({ mcp_code: thrown.code, mcp_data: toRedactedJson(thrown.data, hide) }),
    });
  if (thrown instanceof sdk.UnauthorizedError) return loginRequiredError(server);
  if (thrown instanceof sdk.SdkHttpError) return toHttpFailure(sdk, thrown, server, quoteServer, session);
  if (thrown instanceof sdk.SdkError) return toSdkFailure(sdk, thrown, server, quoteServer);
  return toUnreachableError(server, thrown, quoteServer);
}

export function loginRequiredError(server: string, why = "wants somebody to log in"): QmError {
  return new QmError("needs_login", `server ${server} ${why}`, {
    hint: `A person must run \`qm servers login ${server}\` first.`,
  });
}

function toHttpFailure(
  sdk: Sdk,
  thrown: InstanceType<Sdk["SdkHttpError"]>,
  server: string,
  said: (text: string) => string,
  session: boolean,
): QmError {
  const { status, text } = thrown.data;
  if (thrown.code === sdk.SdkErrorCode.ClientHttpAuthentication)
    return loginRequiredError(server, "refuses the login it has");
  if (status === 401)
    return new QmError(
      "server_failed",
      `server ${server} refuses the credentials that are configured for it (HTTP 401)`,
      {
        hint: `Correct \`servers.${server}.headers\`.`,
      },
    );
  if (status === 404 && session)
    return new QmError("server_failed", `server ${server} has forgotten this session`, {
      hint: "Call it again: a new session is begun then.",
      cause: new SessionLostError(),
    });
  const body = typeof text === "string" && text !== "" ? `: ${said(text)}` : "";
  return new QmError("server_failed", `server ${server} answered HTTP ${status ?? "without a status"}${body}`, {
    hint: status === 404 || status === 405 ? `Is \`servers.${server}.url\` its MCP endpoint?` : "Try again later.",
  });
}

function toSdkFailure(
  sdk: Sdk,
  thrown: InstanceType<Sdk["SdkError"]>,
  server: string,
  said: (text: string) => string,
): QmError {
  const { SdkErrorCode } = sdk;
  if (thrown.code === SdkErrorCode.MethodNotSupportedByProtocolVersion)
    return new QmError("action_failed", `${server}: ${said(thrown.message)}`, { details: { mcp_code: -32601 } });
  if (thrown.code === SdkErrorCode.InvalidResult || thrown.code === SdkErrorCode.UnsupportedResultType)
    return new QmError(
      "invalid_output",
      `server ${server} answered with something that is no result: ${said(thrown.message)}`,
    );
  return toUnreachableError(server, thrown, said);
}

function toUnreachableError(server: string, thrown: unknown, said: (text: string) => string): QmError {
  const code = findSystemCode(thrown);
  const hint = "Look at its state with `qm servers list`, and try again.";
  if (code === undefined)
    return new QmError("server_failed", `server ${server} failed: ${said(getErrorMessage(thrown))}`, { hint });
  return new QmError("server_failed", `server ${server} cannot be reached (${code})`, {
    hint: NEVER_ARRIVED.includes(code) ? hint : "It may have had an effect. Look before you call it again.",
    cause: new UnreachableError(code),
  });
}

/** Whatever else happens on the way may happen after the server has read the request. */
const NEVER_ARRIVED = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "ENETUNREACH", "EHOSTUNREACH"];

/** Of the system, of the HTTP client and of TLS; the SDK has codes of its own, which say less. */
const SYSTEM_CODE =
  /^(?:E[A-Z]+|EAI_[A-Z]+|UND_ERR_\w+|CERT_\w+|ERR_TLS_\w+|DEPTH_ZERO_\w+|SELF_SIGNED_\w+|UNABLE_TO_\w+)$/;

/** The system's name for what went wrong, from wherever it is wrapped: `ECONNREFUSED`. */
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

/** The same failure with what the server itself had to say. */
export function withServerOutput(failure: QmError, words: string): QmError {
  return new QmError(failure.code, `${failure.message} (${words})`, {
    ...(failure.hint === undefined ? {} : { hint: failure.hint }),
    details: failure.details,
    cause: failure.cause,
  });
}
