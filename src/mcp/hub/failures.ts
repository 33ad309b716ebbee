import { facts, messageOf, QmError } from "../../core/errors.ts";
import { clip, isRecord, type Json } from "../../core/json.ts";
import { oneLine } from "../../core/plain-text.ts";
import { type Hide, hiddenIn } from "./hide-values.ts";
import type { Sdk } from "./sdk-client.ts";

/** The server does not know the session any more, and so refused the request without doing anything. */
export class SessionGone extends Error {}

/** There is no way to the server any more. */
export class Unreachable extends Error {}

export interface FailureContext {
  readonly server: string;
  /** Removes what nobody may read. */
  readonly hide: Hide;
  readonly session: boolean;
}

/** Whatever a client or a transport threw, as an error of ours. What a server said is quoted on one line, and bounded. */
export function failureOf(sdk: Sdk, thrown: unknown, { server, hide, session }: FailureContext): QmError {
  if (thrown instanceof QmError) return thrown;
  const said = (text: string) => clip(oneLine(hide(text)), 400);
  if (thrown instanceof sdk.ProtocolError)
    return new QmError("action_failed", `${server}: ${said(thrown.message) || "it answered with an error"}`, {
      details: facts({ mcp_code: thrown.code, mcp_data: jsonOf(thrown.data, hide) }),
    });
  if (thrown instanceof sdk.UnauthorizedError) return needsLogin(server);
  if (thrown instanceof sdk.SdkHttpError) return httpFailure(sdk, thrown, server, said, session);
  if (thrown instanceof sdk.SdkError) return sdkFailure(sdk, thrown, server, said);
  return unreachable(server, thrown, said);
}

export function needsLogin(server: string, why = "wants somebody to log in"): QmError {
  return new QmError("needs_login", `server ${server} ${why}`, {
    hint: `A person must run \`qm servers login ${server}\` first.`,
  });
}

function httpFailure(
  sdk: Sdk,
  thrown: InstanceType<Sdk["SdkHttpError"]>,
  server: string,
  said: (text: string) => string,
  session: boolean,
): QmError {
  const { status, text } = thrown.data;
  if (thrown.code === sdk.SdkErrorCode.ClientHttpAuthentication) return needsLogin(server, "refuses the login it has");
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
      cause: new SessionGone(),
    });
  const body = typeof text === "string" && text !== "" ? `: ${said(text)}` : "";
  return new QmError("server_failed", `server ${server} answered HTTP ${status ?? "without a status"}${body}`, {
    hint: status === 404 || status === 405 ? `Is \`servers.${server}.url\` its MCP endpoint?` : "Try again later.",
  });
}

function sdkFailure(
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
  return unreachable(server, thrown, said);
}

function unreachable(server: string, thrown: unknown, said: (text: string) => string): QmError {
  const code = systemCode(thrown);
  const hint = "Look at its state with `qm servers list`, and try again.";
  if (code === undefined)
    return new QmError("server_failed", `server ${server} failed: ${said(messageOf(thrown))}`, { hint });
  return new QmError("server_failed", `server ${server} cannot be reached (${code})`, {
    hint: NEVER_ARRIVED.includes(code) ? hint : "It may have had an effect. Look before you call it again.",
    cause: new Unreachable(code),
  });
}

/** Whatever else happens on the way may happen after the server has read the request. */
const NEVER_ARRIVED = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "ENETUNREACH", "EHOSTUNREACH"];

/** Of the system, of the HTTP client and of TLS; the SDK has codes of its own, which say less. */
const SYSTEM_CODE =
  /^(?:E[A-Z]+|EAI_[A-Z]+|UND_ERR_\w+|CERT_\w+|ERR_TLS_\w+|DEPTH_ZERO_\w+|SELF_SIGNED_\w+|UNABLE_TO_\w+)$/;

/** The system's name for what went wrong, from wherever it is wrapped: `ECONNREFUSED`. */
function systemCode(thrown: unknown): string | undefined {
  let cause = thrown;
  for (let depth = 0; depth < 8 && isRecord(cause); depth++) {
    if (typeof cause.code === "string" && SYSTEM_CODE.test(cause.code)) return cause.code;
    cause = cause.cause ?? (isRecord(cause.data) ? cause.data.cause : undefined);
  }
  return undefined;
}

function jsonOf(data: unknown, hide: Hide): Json | undefined {
  try {
    return data === undefined ? undefined : hiddenIn(JSON.parse(JSON.stringify(data)) as Json, hide);
  } catch {
    return undefined;
  }
}

/** The same failure with what the server itself had to say. */
export function withWords(failure: QmError, words: string): QmError {
  return new QmError(failure.code, `${failure.message} (${words})`, {
    ...(failure.hint === undefined ? {} : { hint: failure.hint }),
    details: failure.details,
    cause: failure.cause,
  });
}
