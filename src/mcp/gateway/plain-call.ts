import type { ServerResponse } from "node:http";
import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  classifyInboundRequest,
  type Implementation,
  type JSONRPCMessage,
  type JSONRPCResponse,
  LOG_LEVEL_META_KEY,
  PROTOCOL_VERSION_META_KEY,
  ProtocolErrorCode,
  type Result,
  SERVER_INFO_META_KEY,
} from "@modelcontextprotocol/server";
import { Bag } from "../../core/bag.ts";
import { getErrorMessage } from "../../core/errors.ts";
import { isRecord, type JsonObject } from "../../core/json.ts";
import { LruMap } from "../../core/lru-map.ts";
import type { GatewayEra } from "./gateway.ts";

/** A `tools/call` in its usual form. It is answered without the SDK, whose schemas and streams cost more than the call. */
export interface PlainCall {
  readonly id: string | number;
  readonly params: { readonly name: string; readonly arguments: JsonObject };
  /** Without the fields of the envelope. */
  readonly meta: JsonObject | undefined;
  /** What a request of the modern era says about its client. */
  readonly envelope: JsonObject | undefined;
}

const SPEC_META_PREFIX = "io.modelcontextprotocol/";
const ENVELOPE_KEYS: readonly string[] = [
  PROTOCOL_VERSION_META_KEY,
  CLIENT_INFO_META_KEY,
  CLIENT_CAPABILITIES_META_KEY,
  LOG_LEVEL_META_KEY,
];

/** Undefined: the message is something else, or a call that only the SDK can answer, if with an error. */
export function readPlainCall(message: unknown): PlainCall | undefined {
  if (!isRecord(message) || message.jsonrpc !== "2.0" || message.method !== "tools/call") return undefined;
  const { id, params } = message;
  if ((typeof id !== "string" && !Number.isSafeInteger(id)) || !isRecord(params)) return undefined;
  const { name, arguments: args = {}, _meta, ...others } = params;
  if (typeof name !== "string" || !isRecord(args) || Object.keys(others).length > 0) return undefined;
  const plain = { name, arguments: args as JsonObject };
  if (_meta === undefined) return { id: id as string | number, params: plain, meta: undefined, envelope: undefined };
  if (!isRecord(_meta)) return undefined;
  const { progressToken = 0 } = _meta;
  if (typeof progressToken !== "string" && !Number.isSafeInteger(progressToken)) return undefined;
  const entries = Object.entries(_meta as JsonObject);
  const reserved = entries.filter(([key]) => key.startsWith(SPEC_META_PREFIX));
  if (reserved.some(([key]) => !ENVELOPE_KEYS.includes(key))) return undefined;
  const hasEnvelope = reserved.length > 0;
  return {
    id: id as string | number,
    params: plain,
    meta: Object.fromEntries(hasEnvelope ? entries.filter((entry) => !reserved.includes(entry)) : entries),
    envelope: hasEnvelope ? Object.fromEntries(reserved) : undefined,
  };
}

const KNOWN_ENVELOPES_LIMIT = 100;
const ENVELOPE_CHARS = 4096;
const knownEnvelopes = new LruMap<string, boolean>(KNOWN_ENVELOPES_LIMIT);

export const MODERN_VERSION = "2026-07-28";

/** Whether the SDK accepts the envelope. A client sends the same with each request, so each is checked once. */
export function isValidEnvelope(envelope: JsonObject): boolean {
  if (envelope[PROTOCOL_VERSION_META_KEY] !== MODERN_VERSION) return false;
  const text = JSON.stringify(envelope);
  if (text.length > ENVELOPE_CHARS) return false;
  const known = knownEnvelopes.get(text);
  if (known !== undefined) return known;
  const body = { jsonrpc: "2.0", id: 0, method: "tools/call", params: { name: "", _meta: envelope } };
  const isValid = classifyInboundRequest({ httpMethod: "POST", body }).kind === "modern";
  knownEnvelopes.set(text, isValid);
  return isValid;
}

/** The response to a call, as the SDK would build it. `info` describes us to clients of the modern era. Never rejects. */
export async function toResponse(
  id: string | number,
  work: Promise<Result>,
  era: GatewayEra,
  info: Implementation,
): Promise<JSONRPCResponse> {
  try {
    const result = await work;
    if (era === "legacy") return { jsonrpc: "2.0", id, result };
    const _meta = Object.assign({}, result._meta, { [SERVER_INFO_META_KEY]: info });
    return { jsonrpc: "2.0", id, result: { resultType: "complete", ...result, _meta } };
  } catch (thrown) {
    const { code, data } = thrown as { readonly code?: unknown; readonly data?: unknown };
    const error = { code: toErrorCode(code, era), message: getErrorMessage(thrown) };
    const response = { jsonrpc: "2.0", id, error: data === undefined ? error : { ...error, data } } as const;
    return era === "legacy" ? toLegacyMessage(response) : response;
  }
}

function toErrorCode(code: unknown, era: GatewayEra): number {
  if (code === ProtocolErrorCode.ResourceNotFound) return ProtocolErrorCode.InvalidParams;
  // The modern era asks with a result, not with an error.
  const isKnown = era === "legacy" || code !== ProtocolErrorCode.UrlElicitationRequired;
  return Number.isSafeInteger(code) && isKnown ? (code as number) : ProtocolErrorCode.InternalError;
}

/** An unknown resource is -32002 in the legacy era. The SDK sends the code of the modern era, -32602. */
export function toLegacyMessage<T extends JSONRPCMessage>(message: T): T {
  if (!("error" in message) || message.error.code !== ProtocolErrorCode.InvalidParams) return message;
  const { data } = message.error;
  const names = isRecord(data) ? Object.keys(data) : [];
  if (names.length !== 1 || names[0] !== "uri") return message;
  return { ...message, error: { ...message.error, code: -32002 } };
}

/** A client, or a proxy before it, may take a connection without traffic for a broken one. */
const KEEP_ALIVE_MS = 15_000;
/** The answers that are not complete yet. One timer for all of them: most calls end long before it fires. */
const openAnswers = new Bag<HttpAnswer>();
let keepAlive: NodeJS.Timeout | undefined;

function keepAnswersAlive(): void {
  for (const answer of openAnswers) answer.keepAlive();
  if (openAnswers.size > 0) return;
  clearInterval(keepAlive);
  keepAlive = undefined;
}

/** The HTTP answer to one request: a JSON document, or a stream of events if something is sent before the response. */
export class HttpAnswer {
  readonly #outgoing: ServerResponse;
  #isStream = false;

  constructor(outgoing: ServerResponse) {
    this.#outgoing = outgoing;
    openAnswers.add(this);
    keepAlive ??= setInterval(keepAnswersAlive, KEEP_ALIVE_MS).unref();
  }

  /** Sends a message before the response. */
  readonly push = (message: JSONRPCMessage): void => this.#write(formatEvent(message));

  keepAlive(): void {
    this.#write(": keepalive\n\n");
  }

  end(response: JSONRPCResponse): void {
    openAnswers.delete(this);
    if (!this.#isOpen()) return;
    if (this.#isStream) return void this.#outgoing.end(formatEvent(response));
    const body = JSON.stringify(response);
    const isRefusal = "error" in response && response.error.code === ProtocolErrorCode.MissingRequiredClientCapability;
    const length = Buffer.byteLength(body);
    this.#outgoing.writeHead(isRefusal ? 400 : 200, { "content-type": "application/json", "content-length": length });
    this.#outgoing.end(body);
  }

  /** Ends the answer without a response: the request was cancelled. */
  drop(): void {
    openAnswers.delete(this);
    if (!this.#isOpen()) return;
    this.#openStream();
    this.#outgoing.end();
  }

  #isOpen(): boolean {
    return !this.#outgoing.writableEnded && !this.#outgoing.destroyed;
  }

  #write(text: string): void {
    if (!this.#isOpen()) return;
    this.#openStream();
    this.#outgoing.write(text);
  }

  #openStream(): void {
    if (this.#isStream) return;
    this.#isStream = true;
    this.#outgoing.writeHead(200, {
      "content-type": "text/event-stream",
      "cache-control": "no-cache, no-transform",
      "x-accel-buffering": "no",
    });
  }
}

const formatEvent = (message: JSONRPCMessage): string => `event: message\ndata: ${JSON.stringify(message)}\n\n`;
