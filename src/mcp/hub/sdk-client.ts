import type { Client } from "@modelcontextprotocol/client";
import { isRecord, type JsonObject } from "../../core/json.ts";
import type { TraceCarrier } from "../../core/tracing.ts";

export type Sdk = typeof import("@modelcontextprotocol/client");

/** The SDK is a few megabytes of code, so it is loaded when the first server is reached. */
export const loadSdk = (): Promise<Sdk> => import("@modelcontextprotocol/client");

/** The longest time a timer can hold. The signal of a request decides how long it may take. */
export const FOREVER_MS = 2 ** 31 - 1;

/**
 * - `legacy`: `initialize`, newest version first
 * - `oldest`: `initialize` as clients sent it until 2025-06-18, for servers that refuse unknown members
 * - `modern`: only `server/discover`
 * - `auto`: `server/discover`, then `initialize`
 */
export type Handshake = "legacy" | "oldest" | "modern" | "auto";

export function createSdkClient(sdk: Sdk, clientInfo: { name: string; version: string }, handshake: Handshake): Client {
  const isOldest = handshake === "oldest";
  return new sdk.Client(
    { ...clientInfo },
    {
      capabilities: { elicitation: isOldest ? {} : { form: {}, url: {} }, sampling: {}, roots: {} },
      // The SDK's validator compiles every schema at once and runs its patterns unguarded. The invoke pipeline checks
      // results in bounded time, so that this one accepts everything.
      jsonSchemaValidator: {
        getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
      },
      inputRequired: { autoFulfill: false },
      ...(isOldest ? { supportedProtocolVersions: ["2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"] } : {}),
      versionNegotiation: {
        mode: handshake === "modern" ? { pin: "2026-07-28" } : handshake === "auto" ? "auto" : "legacy",
        probe: { timeoutMs: FOREVER_MS },
      },
    },
  );
}

const CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL_KEY = "io.modelcontextprotocol/logLevel";
const VERSION_KEY = "io.modelcontextprotocol/protocolVersion";
const CLIENT_KEY = "io.modelcontextprotocol/clientInfo";
/** Keys that the connection sets. A caller's values would describe the caller's own connection. */
const RESERVED_META_KEYS: readonly string[] = ["progressToken", VERSION_KEY, CLIENT_KEY, CAPABILITIES_KEY];

/** `_meta` that describes the sender, in every message of the modern era. In the legacy era the handshake does. */
export const createSenderMeta = (protocolVersion: string, clientInfo: JsonObject): JsonObject => ({
  [VERSION_KEY]: protocolVersion,
  [CLIENT_KEY]: clientInfo,
  [CAPABILITIES_KEY]: {},
});

interface RequestMeta {
  /** Absent in the legacy era. */
  readonly sender: JsonObject | undefined;
  /** The questions that the caller can answer. */
  readonly capabilities: JsonObject;
  readonly progressToken: string | undefined;
  /** Empty: tracing is off, and the caller's own trace fields are passed on. */
  readonly trace: TraceCarrier;
}

/** The parameters of a request with the `_meta` of this connection and the caller's other `_meta` fields. */
export function addMeta(params: JsonObject, { sender, capabilities, progressToken, trace }: RequestMeta): JsonObject {
  const { _meta, ...rest } = params;
  const meta: JsonObject = {
    // A caller with a dialogue gets all log lines and filters them itself.
    ...(sender !== undefined && progressToken !== undefined ? { [LOG_LEVEL_KEY]: "debug" } : {}),
    ...(isRecord(_meta) ? pickCallerMeta(_meta as JsonObject, sender !== undefined, trace) : {}),
    ...(sender === undefined ? {} : { ...sender, [CAPABILITIES_KEY]: capabilities }),
    ...(progressToken === undefined ? {} : { progressToken }),
    ...trace,
  };
  return Object.keys(meta).length === 0 ? rest : { _meta: meta, ...rest };
}

function pickCallerMeta(meta: JsonObject, isModern: boolean, { traceparent }: TraceCarrier): JsonObject {
  const traceKeys = traceparent === undefined ? [] : ["traceparent", "tracestate"];
  const reserved = [...RESERVED_META_KEYS, ...traceKeys, ...(isModern ? [] : [LOG_LEVEL_KEY])];
  return Object.fromEntries(Object.entries(meta).filter(([key]) => !reserved.includes(key)));
}
