import type { Client } from "@modelcontextprotocol/client";
import { isRecord, type JsonObject } from "../../core/json.ts";
import type { TraceCarrier } from "../../core/tracing.ts";

export const anyResultSchema = {
  "~standard": {
    version: 1 as const,
    vendor: "quartermaster",
    validate: (value: unknown) =>
      isRecord(value) ? { value } : { issues: [{ message: "expected an object as the result" }] },
  },
};

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
/** Keys that the connection sets. A caller's values would describe the caller's own connection. */
const RESERVED_META_KEYS = [
  "progressToken",
  "io.modelcontextprotocol/protocolVersion",
  "io.modelcontextprotocol/clientInfo",
  CAPABILITIES_KEY,
];

interface ConnectionMeta {
  readonly era: "legacy" | "modern";
  /** The questions that the caller can answer. */
  readonly capabilities: JsonObject;
  readonly progressToken: string | undefined;
  /** Empty: tracing is off, and the caller's own trace fields are passed on. */
  readonly trace: TraceCarrier;
}

/** The parameters of a request with the `_meta` of this connection and the caller's other `_meta` fields. */
export function addMeta(params: JsonObject, { era, capabilities, progressToken, trace }: ConnectionMeta): JsonObject {
  const { _meta, ...rest } = params;
  const isModern = era === "modern";
  const traceKeys = trace.traceparent === undefined ? [] : ["traceparent", "tracestate"];
  const reserved = [...RESERVED_META_KEYS, ...traceKeys, ...(isModern ? [] : [LOG_LEVEL_KEY])];
  const given = Object.entries(isRecord(_meta) ? (_meta as JsonObject) : {});
  const meta: JsonObject = {
    // A caller with a dialogue gets all log lines and filters them itself.
    ...(isModern && progressToken !== undefined ? { [LOG_LEVEL_KEY]: "debug" } : {}),
    ...Object.fromEntries(given.filter(([key]) => !reserved.includes(key))),
    ...(isModern ? { [CAPABILITIES_KEY]: capabilities } : {}),
    ...(progressToken === undefined ? {} : { progressToken }),
    ...trace,
  };
  return Object.keys(meta).length === 0 ? rest : { ...rest, _meta: meta };
}
