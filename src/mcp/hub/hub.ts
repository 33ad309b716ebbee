import type { Abortable } from "../../core/abortable.ts";
import type { Dialogue } from "../../core/caller.ts";
import { QmError } from "../../core/errors.ts";
import { canonicalJson, type JsonObject } from "../../core/json.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { Sandbox } from "../../core/sandbox.ts";
import { silentTracer, type TraceCarrier, type Tracer } from "../../core/tracing.ts";
import type { ServerOffer } from "../manifests/offer.ts";
import type { SecretStore } from "../secret-store.ts";
import type { ProtocolEra, ServerSpec } from "../server-spec.ts";
import { type ListingLimits, listingLimits } from "./list-offer.ts";
import { createOAuthStore, type OAuthStore } from "./oauth-store.ts";
import { loadSdk } from "./sdk-client.ts";
import { Semaphore } from "./semaphore.ts";
import { type ProcessFacts, type ProcessStore, sweepProcesses } from "./server-processes.ts";
import type { EnvironmentVariables } from "./start-process.ts";
import type { StdioLimits } from "./stdio-limits.ts";
import { type ServerEvent, Supervisor } from "./supervisor.ts";
import { createWatchdog, type Watchdog } from "./watchdog.ts";

/**
 * - `idle`: not running; the next call starts it
 * - `needs_login`: it answers, but a person has to log in
 * - `failed`: it could not be started or reached; retried after `retryAt`, or when a person asks
 */
export type ConnectionState = "idle" | "starting" | "ready" | "needs_login" | "failed";

export interface ConnectionStatus {
  readonly server: string;
  readonly state: ConnectionState;
  readonly pid?: number;
  readonly era?: ProtocolEra;
  readonly protocolVersion?: string;
  readonly calls: number;
  /** Requests since the server was configured. */
  readonly called: number;
  /** The last failure, with the end of the server's stderr. */
  readonly problem?: string;
  readonly retryAt?: Date;
  readonly noise: number;
}

export type ServerRequest = { readonly method: string; readonly params: JsonObject };

export interface RequestOptions {
  readonly signal?: Abortable | undefined;
  /** Answers questions of the server about this call. Absent: its questions are declined. */
  readonly dialogue?: Dialogue | undefined;
  /** Runs when the server's current offer is known, before anything is sent. If it throws, nothing is sent. */
  readonly before?: (() => Promise<void>) | undefined;
  /** The parent span, passed on to the server. Absent: the host's current span. */
  readonly trace?: TraceCarrier | undefined;
}

export type Hub = ReturnType<typeof createHub>;

export interface HubOptions {
  readonly runtime: Runtime;
  /** Fills `${env:NAME}` and `${secret:name}` in the value of a config key. Throws `invalid_config` if one is missing. */
  readonly fill: (text: string, key: string) => string;
  readonly environment: EnvironmentVariables;
  readonly secrets: SecretStore;
  /** For servers with the setting. Absent: these do not start. */
  readonly sandbox?: Sandbox | undefined;
  readonly processes: ProcessStore;
  readonly processFacts: ProcessFacts;
  /** Awaited after every listing, before any request is sent: definitions are checked there. */
  readonly onOffer: (spec: ServerSpec, offer: ServerOffer) => Promise<unknown>;
  readonly getKnownEra?: ((server: string) => ProtocolEra | undefined) | undefined;
  readonly note: (event: ServerEvent) => void;
  /** Holds one stderr log per server. Absent: no logs. */
  readonly logFolder?: string | undefined;
  readonly startingAtOnce: number;
  readonly clientInfo: { readonly name: string; readonly version: string };
  readonly tracer?: Tracer | undefined;
  readonly limits?: Partial<HubLimits> | undefined;
}

interface HubLimits {
  readonly listing: ListingLimits;
  /** The longest message that is read from a remote server. */
  readonly messageBytes: number;
  readonly stdio: Partial<StdioLimits>;
  /** The first and the longest wait before a failed server is started again. */
  readonly backoff: { readonly firstMs: number; readonly longestMs: number };
}

const DEFAULT_LIMITS: HubLimits = {
  listing: listingLimits,
  messageBytes: 64 * 1024 * 1024,
  stdio: {},
  backoff: { firstMs: 1000, longestMs: 5 * 60 * 1000 },
};

/** The hub's options and the state that its supervisors, connections and transports share. */
export interface HubContext extends HubOptions {
  readonly limits: HubLimits;
  readonly tracer: Tracer;
  readonly startSlots: Semaphore;
  readonly watchdog: Watchdog;
  readonly oauth: OAuthStore;
  readonly onChange: (server: string) => void;
  readonly onResourceUpdated: (server: string, uri: string) => void;
}

/** Starts, calls and stops MCP servers. All callers share one connection per server. */
export function createHub(options: HubOptions) {
  const { processes, processFacts, environment, tracer = silentTracer } = options;
  const listeners = new Set<(server: string) => void>();
  const updateListeners = new Set<(server: string, uri: string) => void>();
  const supervisors = new Map<string, Supervisor>();
  const closing = new AbortController();
  let swept: Promise<unknown> | undefined;

  const context: HubContext = {
    ...options,
    limits: { ...DEFAULT_LIMITS, ...options.limits },
    tracer,
    startSlots: new Semaphore(options.startingAtOnce),
    watchdog: createWatchdog(environment, process.platform),
    oauth: createOAuthStore(options.secrets),
    onChange(server) {
      for (const listener of listeners) listener(server);
    },
    onResourceUpdated(server, uri) {
      for (const listener of updateListeners) listener(server, uri);
    },
  };

  function getSupervisor(server: string): Supervisor {
    const supervisor = supervisors.get(server);
    if (supervisor !== undefined) return supervisor;
    const hint = "Use the name of an installed server. {qm servers list} lists them. {mcp__list_servers} lists them.";
    throw new QmError("not_found", `there is no server ${JSON.stringify(server)}`, { hint });
  }

  return {
    /** Replaces the set of servers. Unchanged servers stay connected, removed ones are stopped. */
    async configure(specs: readonly ServerSpec[]): Promise<void> {
      if (closing.signal.aborted) throw hubClosedError();
      // A server left running by a dead process may hold a port or a lock that the new one needs.
      swept ??= sweepProcesses(processes, processFacts).catch(() => []);
      await swept;
      const wanted = new Map(specs.map((spec) => [spec.name, canonicalJson(spec)]));
      const leaving = [...supervisors.values()].filter(({ spec }) => wanted.get(spec.name) !== canonicalJson(spec));
      for (const { spec } of leaving) supervisors.delete(spec.name);
      const stopped = new Map(leaving.map((supervisor) => [supervisor.spec.name, supervisor.retire("asked")]));
      for (const spec of specs)
        if (!supervisors.has(spec.name))
          supervisors.set(spec.name, new Supervisor(spec, context, stopped.get(spec.name)));
      await Promise.all(stopped.values());
    },
    status: (server: string): ConnectionStatus => getSupervisor(server).status(),
    /** Whether the server is connected, and all that it offers is known. */
    isConnected: (server: string): boolean => getSupervisor(server).isConnected,
    /** Starts the server if needed. `insist` ignores the wait after a failure, for a person's request. */
    connect: async (server: string, signal?: Abortable, insist = false): Promise<ServerOffer> =>
      getSupervisor(server).connect(signal, insist),
    /** Like `connect`, but stops a server that was started for this alone. */
    learn: async (server: string, signal?: AbortSignal, insist = false): Promise<ServerOffer> =>
      getSupervisor(server).learn(signal, insist),
    /** Throws `action_failed` with `mcp_code` and `mcp_data`; `server_failed` if the server dies. Sends nothing twice. */
    request: async (server: string, request: ServerRequest, call: RequestOptions): Promise<JsonObject> =>
      getSupervisor(server).request(request, call),
    /** Starts a server that is not configured, returns its offer and stops it. Records nothing. */
    probe(spec: ServerSpec, signal?: AbortSignal): Promise<ServerOffer> {
      const stopped = AbortSignal.any([closing.signal, ...(signal ? [signal] : [])]);
      return context.startSlots.run(stopped, async () => {
        const { openConnection } = await import("./open-connection.ts");
        const connection = await openConnection(spec, context, { stopped, onOffer: async () => undefined });
        await connection.close();
        return connection.offer;
      });
    },
    /** Ends the process or the connection. The next call starts it again. */
    stop: async (server: string): Promise<void> => getSupervisor(server).stop("asked"),
    /** Logs in to a remote server: passes the browser's URL to `show` and resolves when tokens are stored. */
    async login(server: string, show: (url: URL) => void | Promise<void>, signal?: AbortSignal): Promise<void> {
      const supervisor = getSupervisor(server);
      const { launch } = supervisor.spec;
      if (launch.kind !== "http")
        throw new QmError("invalid_config", `server ${server} runs on this machine and needs no login`);
      const [{ createOAuthContext }, { performLogin }] = await Promise.all([
        import("./server-transport.ts"),
        import("./login.ts"),
      ]);
      const { oauth, headers, createRedactor } = createOAuthContext(await loadSdk(), server, launch, context);
      const clientName = options.clientInfo.name;
      await performLogin({ ...oauth, headers, hide: createRedactor({}), clientName, show, signal });
      supervisor.clearLoginProblem();
    },
    async logout(server: string): Promise<void> {
      const supervisor = getSupervisor(server);
      await context.oauth.drop(server);
      await supervisor.stop("asked");
    },
    /** Calls back when the state or the offer of a server has changed. */
    onChange: (listener: (server: string) => void) => subscribe(listeners, listener),
    onResourceUpdated: (listener: (server: string, uri: string) => void) => subscribe(updateListeners, listener),
    /** Loads all code now. Node caches a failed import, so an import without free file descriptors would fail forever. */
    prepare: async (): Promise<void> => void (await Promise.all([loadSdk(), import("./open-connection.ts")])),
    async close(): Promise<void> {
      closing.abort(hubClosedError());
      await Promise.all([...supervisors.values()].map((supervisor) => supervisor.retire("closing")));
      await context.watchdog.close();
    },
  };
}

function subscribe<T>(listeners: Set<T>, listener: T): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

const hubClosedError = (): QmError => new QmError("server_failed", "the hub is closed and starts no more servers");
