import type { Client, ClientOptions, jsonSchemaValidator } from "@modelcontextprotocol/client";
import { isRecord, type JsonObject } from "../../core/json.ts";
import type { TraceCarrier } from "../../core/tracing.ts";

/**
 * In place of the SDK's engine, which compiles every schema of a server at once and runs its patterns unguarded. It lets
 * everything pass: the door checks results against their schema already, in bounded time, and once is enough.
 */
const permissiveValidator: jsonSchemaValidator = {
  getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
};

/** A result schema for requests whose result is wanted as it came. */
export const anyResultSchema = {
  "~standard": {
    version: 1 as const,
    vendor: "quartermaster",
    validate: (value: unknown) =>
      isRecord(value) ? { value } : { issues: [{ message: "expected an object as the result" }] },
  },
};

export type Sdk = typeof import("@modelcontextprotocol/client");

/** The SDK is a few megabytes of code: it is read when the first server is reached, and not before. */
export function loadSdk(): Promise<Sdk> {
  return import("@modelcontextprotocol/client");
}

/** The most that a timer can hold: how long a request may take is decided by its signal. */
export const FOREVER_MS = 2 ** 31 - 1;

const MODERN_VERSION = "2026-07-28";

/**
 * - `legacy`: `initialize`, newest version first
 * - `oldest`: `initialize` as clients sent it until 2025-06-18, for servers that refuse what they do not know
 * - `modern`: `server/discover`, and nothing else
 * - `auto`: `server/discover`, then `initialize`
 */
export type Handshake = "legacy" | "oldest" | "modern" | "auto";

const OLDER_VERSIONS = ["2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];

/** A client that has not been connected yet: questions are routed by us, results are not looked into. */
export function createSdkClient(
  sdk: Sdk,
  clientInfo: { readonly name: string; readonly version: string },
  handshake: Handshake,
): Client {
  const options: ClientOptions = {
    capabilities: {
      elicitation: handshake === "oldest" ? {} : { form: {}, url: {} },
      sampling: {},
      roots: {},
    },
    jsonSchemaValidator: permissiveValidator,
    inputRequired: { autoFulfill: false },
    ...(handshake === "oldest" ? { supportedProtocolVersions: OLDER_VERSIONS } : {}),
    versionNegotiation: {
      mode: handshake === "modern" ? { pin: MODERN_VERSION } : handshake === "auto" ? "auto" : "legacy",
      probe: { timeoutMs: FOREVER_MS },
    },
  };
  return new sdk.Client({ ...clientInfo }, options);
}

const CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities";
/** Said by the connection, never by a caller: a token or a version of theirs would mean something else here. */
const RESERVED_META_KEYS = [
  "progressToken",
  "io.modelcontextprotocol/protocolVersion",
  "io.modelcontextprotocol/clientInfo",
  CAPABILITIES_KEY,
];
const LOG_LEVEL_KEY = "io.modelcontextprotocol/logLevel";

interface ConnectionMeta {
  readonly era: "legacy" | "modern";
  /** What the caller can be asked. */
  readonly capabilities: JsonObject;
  readonly progressToken: string | undefined;
  /** Empty: nobody traces here, and what the caller says of that goes along. */
  readonly trace: TraceCarrier;
}

/** The parameters of a request with a `_meta` that is true of this connection, and with whatever else the caller says. */
export function addMeta(params: JsonObject, { era, capabilities, progressToken, trace }: ConnectionMeta): JsonObject {
  const { _meta, ...rest } = params;
  const ours =
    trace.traceparent === undefined ? RESERVED_META_KEYS : [...RESERVED_META_KEYS, "traceparent", "tracestate"];
  const theirs = Object.entries(isRecord(_meta) ? (_meta as JsonObject) : {}).filter(
    ([key]) => !ours.includes(key) && !(era === "legacy" && key === LOG_LEVEL_KEY),
  );
  const meta: JsonObject = {
    // Whoever can be told is told everything, and shows of it what was asked for.
    ...(era === "modern" && progressToken !== undefined ? { [LOG_LEVEL_KEY]: "debug" } : {}),
    ...Object.fromEntries(theirs),
    ...(era === "modern" ? { [CAPABILITIES_KEY]: capabilities } : {}),
    ...(progressToken === undefined ? {} : { progressToken }),
    ...trace,
  };
  return Object.keys(meta).length === 0 ? rest : { ...rest, _meta: meta };
}
