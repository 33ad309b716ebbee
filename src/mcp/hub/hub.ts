import type { Dialogue } from "../../core/caller.ts";
import { QmError } from "../../core/errors.ts";
import { canonicalJson, type JsonObject } from "../../core/json.ts";
import type { Runtime } from "../../core/runtime.ts";
import { silentTracer, type TraceCarrier, type Tracer } from "../../core/tracing.ts";
import type { ServerOffer } from "../manifests/offer.ts";
import type { SecretStore } from "../secret-store.ts";
import type { ProtocolEra, ServerSpec } from "../server-spec.ts";
import { type ListingLimits, listingLimits } from "./list-offer.ts";
import { performLogin } from "./login.ts";
import { createOAuthStore } from "./oauth-store.ts";
import { openConnection } from "./open-connection.ts";
import { loadSdk } from "./sdk-client.ts";
import { createSemaphore } from "./semaphore.ts";
import type { KillProcess, ProcessStore } from "./server-processes.ts";
import { readStartTime, sweepProcesses } from "./server-processes.ts";
import { createOAuthContext } from "./server-transport.ts";
import type { EnvironmentVariables } from "./start-process.ts";
import type { StdioLimits } from "./stdio-transport.ts";
import { type ServerEvent, Supervisor, type SupervisorPorts, withStartTimeout } from "./supervisor.ts";
import { createWatchdog } from "./watchdog.ts";

/**
 * - `idle`: nothing runs; the next call starts it
 * - `starting`, `ready`
 * - `needs_login`: it answers, and wants somebody to log in
 * - `failed`: it could not be started or reached; tried again after `retryAt`, or when asked for
 */
export type ConnectionState = "idle" | "starting" | "ready" | "needs_login" | "failed";

export interface ConnectionStatus {
  readonly server: string;
  readonly state: ConnectionState;
  readonly pid?: number;
  readonly era?: ProtocolEra;
  readonly protocolVersion?: string;
  /** Requests under way. */
  readonly calls: number;
  /** Requests since it was configured. */
  readonly called: number;
  /** What went wrong last, with the end of what it wrote to stderr. */
  readonly problem?: string;
  readonly retryAt?: Date;
  /** Lines on its stdout that were no messages. */
  readonly noise: number;
}

export interface ServerRequest {
  readonly method: string;
  readonly params: JsonObject;
}

export interface RequestOptions {
  readonly signal?: AbortSignal | undefined;
  /** A question of the server goes to the call it belongs to, and never to another owner's. Absent: nobody is asked. */
  readonly dialogue?: Dialogue | undefined;
  /** Asked when the server is there and what it offers is known, before anything is sent. A throw keeps it from being sent. */
  readonly before?: (() => Promise<void>) | undefined;
  /** What it is part of; the server is told. Absent: whatever the host is tracing. */
  readonly trace?: TraceCarrier | undefined;
}

/** Starts, speaks to and stops MCP servers. One connection a server, shared by all callers. */
export interface Hub {
  /** The servers there are from now on. What is the same stays connected; what is gone is stopped. */
  configure(specs: readonly ServerSpec[]): Promise<void>;
  status(server: string): ConnectionStatus;
  /**
   * Starts the server if need be and answers what it offers. `insist`: a person asks, so it is tried now, also when it has
   * failed a moment ago. Throws `server_failed`, `needs_login`, `cancelled`.
   */
  connect(server: string, signal?: AbortSignal, insist?: boolean): Promise<ServerOffer>;
  /**
   * Sends a request, starting the server if need be. A JSON-RPC error is thrown as `action_failed` with
   * `details.mcp_code` and `details.mcp_data`. A server that dies meanwhile: `server_failed`; nothing is sent twice.
   */
  request(server: string, request: ServerRequest, options: RequestOptions): Promise<JsonObject>;
  /** Starts a server that is not configured, answers what it offers, and stops it: nothing of it is kept. */
  probe(spec: ServerSpec, signal?: AbortSignal): Promise<ServerOffer>;
  /** Ends the process, or the connection. The next call starts it again. */
  stop(server: string): Promise<void>;
  /** Logs in to a remote server: hands over the URL for the browser, resolves when tokens are there. */
  login(server: string, show: (url: URL) => void | Promise<void>, signal?: AbortSignal): Promise<void>;
  logout(server: string): Promise<void>;
  /** Calls back when the state of a server has changed. */
  onChange(listener: (server: string) => void): () => void;
  /** Calls back when a server says that a resource has changed that was subscribed to. */
  onResourceUpdated(listener: (server: string, uri: string) => void): () => void;
  /** Loads the SDK now. Node remembers a failed import, so one while no file descriptor is left would fail for good. */
  prepare(): Promise<void>;
  /** Stops everything. */
  close(): Promise<void>;
}

export interface HubOptions {
  readonly runtime: Runtime;
  /** Fills `${env:NAME}` and `${secret:name}` in the value of a key. Throws `invalid_config` naming what is missing. */
  readonly fill: (text: string, key: string) => string;
  /** Our own variables; few of them are passed on to servers. */
  readonly environment: EnvironmentVariables;
  readonly secrets: SecretStore;
  readonly processes: ProcessStore;
  readonly processFacts: {
    readonly pid: number;
    readonly host: string;
    readonly isAlive: (pid: number) => boolean;
    readonly kill: KillProcess;
  };
  /** Awaited after every listing, and before any request goes out: definitions are checked there. */
  readonly learned: (spec: ServerSpec, offer: ServerOffer) => Promise<void>;
  /** The era that a server spoke when it was last learned. */
  readonly remembered?: ((server: string) => ProtocolEra | undefined) | undefined;
  readonly note: (event: ServerEvent) => void;
  /** What servers write to stderr is kept there, a file a server. Absent: it is not. */
  readonly logFolder?: string | undefined;
  readonly startingAtOnce: number;
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** Told of every request, and of how long sessions last. Absent: nobody is. */
  readonly tracer?: Tracer | undefined;
  readonly limits?: Partial<HubLimits> | undefined;
}

interface HubLimits {
  readonly listing: ListingLimits;
  /** The longest message of a remote server that is read. */
  readonly messageBytes: number;
  readonly stdio: Partial<StdioLimits>;
  /** How long a server that could not be started is left alone: at first, and at most. */
  readonly backoff: { readonly firstMs: number; readonly longestMs: number };
}

const DEFAULT_LIMITS: HubLimits = {
  listing: listingLimits,
  messageBytes: 64 * 1024 * 1024,
  stdio: {},
  backoff: { firstMs: 1000, longestMs: 5 * 60 * 1000 },
};

export function createHub(options: HubOptions): Hub {
  const { runtime, processes, processFacts, learned, note } = options;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const listeners = new Set<(server: string) => void>();
  const updateListeners = new Set<(server: string, uri: string) => void>();
  const supervisors = new Map<string, Supervisor>();
  const watchdog = createWatchdog(options.environment, process.platform);
  const closing = new AbortController();
  let swept: Promise<unknown> | undefined;

  const ports: SupervisorPorts = {
    runtime,
    startSlots: createSemaphore(options.startingAtOnce),
    learned: async (spec, offer) => {
      await learned(spec, offer);
    },
    remembered: options.remembered ?? (() => undefined),
    note,
    changed: (server) => {
      for (const listener of listeners) listener(server);
    },
    resourceUpdated: (server, uri) => {
      for (const listener of updateListeners) listener(server, uri);
    },
    backoff: limits.backoff,
    fill: options.fill,
    environment: options.environment,
    processes,
    self: processFacts,
    watchdog,
    oauth: createOAuthStore(options.secrets),
    now: runtime.now,
    logFolder: options.logFolder,
    stdioLimits: limits.stdio,
    messageBytes: limits.messageBytes,
    clientInfo: options.clientInfo,
    listingLimits: limits.listing,
    telemetry: { tracer: options.tracer ?? silentTracer, elapsed: runtime.elapsed },
  };

  function getSupervisor(server: string): Supervisor {
    const supervisor = supervisors.get(server);
    if (supervisor === undefined)
      throw new QmError("not_found", `there is no server ${JSON.stringify(server)}`, {
        hint: "List them with `qm servers list`.",
      });
    return supervisor;
  }

  return {
    async configure(specs) {
      if (closing.signal.aborted) throw hubClosedError();
      // What a process that is gone left running would hold what its successor needs.
      swept ??= sweepProcesses(processes, { ...processFacts, startTimeOf: readStartTime }).catch(() => []);
      await swept;
      const wanted = new Map(specs.map((spec) => [spec.name, spec]));
      const leaving = [...supervisors.values()].filter(({ spec }) => !isSameSpec(spec, wanted.get(spec.name)));
      for (const { spec } of leaving) supervisors.delete(spec.name);
      const gone = new Map(leaving.map((supervisor) => [supervisor.spec.name, supervisor.retire("asked")]));
      for (const spec of specs)
        if (!supervisors.has(spec.name)) supervisors.set(spec.name, new Supervisor(spec, ports, gone.get(spec.name)));
      await Promise.all(gone.values());
    },
    status: (server) => getSupervisor(server).status(),
    connect: async (server, signal, insist = false) => getSupervisor(server).connect(signal, insist),
    request: async (server, request, call) => getSupervisor(server).request(request, call),
    probe: (spec, signal) => probeServer(spec, ports, AbortSignal.any([closing.signal, ...(signal ? [signal] : [])])),
    stop: async (server) => getSupervisor(server).stop("asked"),
    async login(server, show, signal) {
      const supervisor = getSupervisor(server);
      const { launch } = supervisor.spec;
      if (launch.kind !== "http")
        throw new QmError("invalid_config", `server ${server} runs on this machine, and there is nothing to log in to`);
      const { party, headers, hiding } = createOAuthContext(await loadSdk(), server, launch, ports);
      await performLogin({ ...party, headers, hide: hiding({}), clientName: options.clientInfo.name, show, signal });
      supervisor.clearLoginProblem();
    },
    async logout(server) {
      const supervisor = getSupervisor(server);
      await ports.oauth.drop(server);
      await supervisor.stop("asked");
    },
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    onResourceUpdated(listener) {
      updateListeners.add(listener);
      return () => void updateListeners.delete(listener);
    },
    async prepare() {
      await loadSdk();
    },
    async close() {
      closing.abort(hubClosedError());
      await Promise.all([...supervisors.values()].map((supervisor) => supervisor.retire("closing")));
      await watchdog.close();
    },
  };
}

/** In a place of its own, beside whatever is configured: nothing is learned, and nothing is noted. */
async function probeServer(spec: ServerSpec, ports: SupervisorPorts, stopped: AbortSignal): Promise<ServerOffer> {
  return ports.startSlots.run(stopped, async () => {
    const connection = await withStartTimeout(spec, stopped, (signal) =>
      openConnection(spec, ports, { remembered: undefined, learned: async () => undefined, signal }),
    );
    await connection.close();
    return connection.offer;
  });
}

function isSameSpec(spec: ServerSpec, other: ServerSpec | undefined): boolean {
  return other !== undefined && canonicalJson(spec) === canonicalJson(other);
}

function hubClosedError(): QmError {
  return new QmError("server_failed", "the hub is closed: no server is started any more");
}
