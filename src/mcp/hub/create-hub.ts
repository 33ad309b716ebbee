import { QmError } from "../../core/errors.ts";
import { canonicalJson } from "../../core/json.ts";
import type { Runtime } from "../../core/runtime.ts";
import { silentTracer, type Tracer } from "../../core/tracing.ts";
import type { Offer } from "../manifest/offer.ts";
import type { SecretStore } from "../secret-store.ts";
import type { Era, ServerSpec } from "../server-spec.ts";
import type { Variables } from "./environment.ts";
import type { Hub } from "./hub.ts";
import { type ListingLimits, listingLimits } from "./listing.ts";
import { logIn } from "./login.ts";
import { oauthRecords } from "./oauth-records.ts";
import { openConnection } from "./open-connection.ts";
import { places } from "./places.ts";
import type { Kill } from "./process-group.ts";
import type { ProcessStore } from "./process-store.ts";
import { loadSdk } from "./sdk-client.ts";
import { startTimeOf } from "./start-time.ts";
import type { StdioLimits } from "./stdio-transport.ts";
import { inTime, type ServerEvent, Supervisor, type SupervisorPorts } from "./supervisor.ts";
import { sweepProcesses } from "./sweep.ts";
import { createWatchdog } from "./watchdog.ts";
import { oauthParty } from "./wire.ts";

export interface HubOptions {
  readonly runtime: Runtime;
  /** Fills `${env:NAME}` and `${secret:name}` in the value of a key. Throws `invalid_config` naming what is missing. */
  readonly fill: (text: string, key: string) => string;
  /** Our own variables; few of them are passed on to servers. */
  readonly environment: Variables;
  readonly secrets: SecretStore;
  readonly processes: ProcessStore;
  readonly processFacts: {
    readonly pid: number;
    readonly host: string;
    readonly isAlive: (pid: number) => boolean;
    readonly kill: Kill;
  };
  /** Awaited after every listing, and before any request goes out: definitions are checked there. */
  readonly learned: (spec: ServerSpec, offer: Offer) => Promise<void>;
  /** The era that a server spoke when it was last learned. */
  readonly remembered?: ((server: string) => Era | undefined) | undefined;
  readonly note: (event: ServerEvent) => void;
  /** What servers write to stderr is kept there, a file a server. Absent: it is not. */
  readonly logFolder?: string | undefined;
  readonly startingAtOnce: number;
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** Told of every request, and of how long sessions last. Absent: nobody is. */
  readonly tracer?: Tracer | undefined;
  readonly limits?: Partial<HubLimits> | undefined;
}

export interface HubLimits {
  readonly listing: ListingLimits;
  /** The longest message of a remote server that is read. */
  readonly messageBytes: number;
  readonly stdio: Partial<StdioLimits>;
  /** How long a server that could not be started is left alone: at first, and at most. */
  readonly backoff: { readonly firstMs: number; readonly longestMs: number };
}

const LIMITS: HubLimits = {
  listing: listingLimits,
  messageBytes: 64 * 1024 * 1024,
  stdio: {},
  backoff: { firstMs: 1000, longestMs: 5 * 60 * 1000 },
};

export function createHub(options: HubOptions): Hub {
  const { runtime, processes, processFacts, learned, note } = options;
  const limits = { ...LIMITS, ...options.limits };
  const listeners = new Set<(server: string) => void>();
  const updateListeners = new Set<(server: string, uri: string) => void>();
  const supervisors = new Map<string, Supervisor>();
  const watchdog = createWatchdog(options.environment, process.platform);
  const closing = new AbortController();
  let swept: Promise<unknown> | undefined;

  const ports: SupervisorPorts = {
    runtime,
    places: places(options.startingAtOnce),
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
    oauth: oauthRecords(options.secrets),
    now: runtime.now,
    logFolder: options.logFolder,
    stdioLimits: limits.stdio,
    messageBytes: limits.messageBytes,
    clientInfo: options.clientInfo,
    listingLimits: limits.listing,
    telemetry: { tracer: options.tracer ?? silentTracer, elapsed: runtime.elapsed },
  };

  function supervisorOf(server: string): Supervisor {
    const supervisor = supervisors.get(server);
    if (supervisor === undefined)
      throw new QmError("not_found", `there is no server ${JSON.stringify(server)}`, {
        hint: "List them with `qm servers list`.",
      });
    return supervisor;
  }

  return {
    async configure(specs) {
      if (closing.signal.aborted) throw closed();
      // What a process that is gone left running would hold what its successor needs.
      swept ??= sweepProcesses(processes, { ...processFacts, startTimeOf }).catch(() => []);
      await swept;
      const wanted = new Map(specs.map((spec) => [spec.name, spec]));
      const leaving = [...supervisors.values()].filter(({ spec }) => !isSame(spec, wanted.get(spec.name)));
      for (const { spec } of leaving) supervisors.delete(spec.name);
      const gone = new Map(leaving.map((supervisor) => [supervisor.spec.name, supervisor.retire("asked")]));
      for (const spec of specs)
        if (!supervisors.has(spec.name)) supervisors.set(spec.name, new Supervisor(spec, ports, gone.get(spec.name)));
      await Promise.all(gone.values());
    },
    status: (server) => supervisorOf(server).status(),
    connect: async (server, signal, insist = false) => supervisorOf(server).connect(signal, insist),
    request: async (server, request, call) => supervisorOf(server).request(request, call),
    probe: (spec, signal) => probed(spec, ports, AbortSignal.any([closing.signal, ...(signal ? [signal] : [])])),
    stop: async (server) => supervisorOf(server).stop("asked"),
    async login(server, show, signal) {
      const supervisor = supervisorOf(server);
      const { launch } = supervisor.spec;
      if (launch.kind !== "http")
        throw new QmError("invalid_config", `server ${server} runs on this machine, and there is nothing to log in to`);
      const { party, headers, hiding } = oauthParty(await loadSdk(), server, launch, ports);
      await logIn({ ...party, headers, hide: hiding({}), clientName: options.clientInfo.name, show, signal });
      supervisor.loggedIn();
    },
    async logout(server) {
      const supervisor = supervisorOf(server);
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
      closing.abort(closed());
      await Promise.all([...supervisors.values()].map((supervisor) => supervisor.retire("closing")));
      await watchdog.close();
    },
  };
}

/** In a place of its own, beside whatever is configured: nothing is learned, and nothing is noted. */
async function probed(spec: ServerSpec, ports: SupervisorPorts, stopped: AbortSignal): Promise<Offer> {
  return ports.places.take(stopped, async () => {
    const connection = await inTime(spec, stopped, (signal) =>
      openConnection(spec, ports, { remembered: undefined, learned: async () => undefined, signal }),
    );
    await connection.close();
    return connection.offer;
  });
}

function isSame(spec: ServerSpec, other: ServerSpec | undefined): boolean {
  return other !== undefined && canonicalJson(spec) === canonicalJson(other);
}

function closed(): QmError {
  return new QmError("server_failed", "the hub is closed: no server is started any more");
}
