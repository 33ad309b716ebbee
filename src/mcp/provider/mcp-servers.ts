import { join } from "node:path";
import type { Provider } from "../../catalog/define-action.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { ConnectionStatus, Hub } from "../hub/hub.ts";
import { createHub, type HubOptions } from "../hub/hub.ts";
import { readServerLog } from "../hub/server-log.ts";
import type { ProblemStore, ServerProblem } from "../hub/server-problems.ts";
import { createProblemRecorder } from "../hub/server-problems.ts";
import type { ProcessStore, StartedProcess } from "../hub/server-processes.ts";
import { readStartTime, stopProcesses } from "../hub/server-processes.ts";
import type { ServerEvent } from "../hub/supervisor.ts";
import type { ServerRegistry } from "../install/server-registry.ts";
import { type ManifestEvent, type ManifestService, openManifestService } from "../manifests/manifest-service.ts";
import type { ManifestStore } from "../manifests/manifest-store.ts";
import type { SecretStore } from "../secret-store.ts";
import { fingerprintServer, type ServerSpec } from "../server-spec.ts";
import { createMcpProvider } from "./mcp-provider.ts";
import type { ServerInstaller } from "./server-installer.ts";
import {
  createServerInstaller,
  type InstallerEvent,
  type ServerConfigWriter,
  type ServerInstallerOptions,
} from "./server-installer.ts";

export type McpServersEvent = ServerEvent | ManifestEvent | InstallerEvent;

export interface McpServersOptions
  extends Pick<
    HubOptions,
    "fill" | "environment" | "processes" | "processFacts" | "startingAtOnce" | "clientInfo" | "logFolder" | "tracer"
  > {
  readonly runtime: Runtime;
  readonly manifests: ManifestStore;
  readonly secrets: SecretStore;
  readonly problems: ProblemStore;
  /** The processes on record, also where `processes` keeps none. */
  readonly recorded: ProcessStore["all"];
  readonly registry: ServerRegistry;
  readonly plans: ServerInstallerOptions["plans"];
  readonly unpack: ServerInstallerOptions["unpack"];
  /** Where servers are written down for good. */
  readonly writer: ServerConfigWriter;
  /** Whether there are actions that find, install and remove servers. */
  readonly install: boolean;
  readonly note: (event: McpServersEvent) => void;
  readonly onProblem: (problem: string) => void;
}

/**
 * - `configured`: nothing is known of it but how to reach it
 * - `known`: what it offers is known from before; nothing runs
 * - `starting`, `started`
 * - `called`: started, and calls went there
 * - `needs_login`, `failed`
 */
export type ServerState = "configured" | "known" | "starting" | "started" | "called" | "needs_login" | "failed";

/** A server as an operator is shown it. */
export interface ServerView {
  readonly spec: ServerSpec;
  readonly state: ServerState;
  readonly tools: number;
  /** How many definitions wait for a person. */
  readonly withheld: number;
  readonly connection: ConnectionStatus;
}

/** MCP servers and what is done with them. Their tools are the actions of `provider`. */
export interface McpServers {
  readonly provider: Provider;
  readonly hub: Hub;
  readonly manifests: ManifestService;
  readonly installer: ServerInstaller;
  list(): readonly ServerView[];
  /** The same, with what other processes have left on record: what runs for them, and what was wrong last. */
  listWithRecords(): Promise<readonly ServerView[]>;
  /** The newest lines that a server wrote to its error output, whichever process ran it. */
  logs(server: string, lines: number): Promise<readonly string[]>;
  /** Ends the processes of some servers, or of all, whichever process on this machine started them. */
  stopProcesses(servers: readonly string[]): Promise<readonly Pick<StartedProcess, "server" | "pid">[]>;
  /** The servers there are from now on. */
  configure(specs: readonly ServerSpec[]): Promise<void>;
  close(): Promise<void>;
}

export async function openMcpServers(specs: readonly ServerSpec[], options: McpServersOptions): Promise<McpServers> {
  const { runtime, manifests, note, onProblem } = options;
  let current = specs;
  const listeners = new Set<() => void>();
  const notifyListeners = (): void => {
    for (const listener of listeners) listener();
  };
  const book = await openManifestService({ store: manifests, now: runtime.now, note, onProblem });
  const hub = createHub({
    ...options,
    onOffer: async (spec, offer) => {
      await book.learn(spec, offer);
    },
    getKnownEra: (server) => book.offer(server)?.era,
  });
  const problemRecorder = createProblemRecorder(options.problems, hub);
  const following = [
    book.onChange((server) => {
      // Somebody has reached it, in another process: what was wrong with it is not any more.
      const isWaiting = current.some(({ name }) => name === server) && hub.status(server).state === "failed";
      if (isWaiting) void hub.stop(server).catch(() => undefined);
      notifyListeners();
    }),
    hub.onChange((server) => {
      const spec = current.find(({ name }) => name === server);
      if (spec === undefined || hub.status(server).state !== "ready") book.markDisconnected(server);
      if (spec !== undefined) problemRecorder.record(spec);
    }),
  ];

  async function close(): Promise<void> {
    for (const stop of following) stop();
    await hub.close();
    await problemRecorder.settled();
  }

  async function configure(next: readonly ServerSpec[]): Promise<void> {
    current = next;
    book.use(next);
    await hub.configure(next);
    notifyListeners();
  }

  const list = () => current.map((spec) => toServerView(spec, hub, book));
  const desk = createServerInstaller({
    ...options,
    hub,
    book,
    problems: { ...options.problems, clear: problemRecorder.clear },
    specs: () => current,
    configure,
  });
  const provider = createMcpProvider({ ...options, hub, book, desk });
  await configure(specs);

  return {
    provider: {
      ...provider,
      watch(onChange) {
        listeners.add(onChange);
        return () => listeners.delete(onChange);
      },
      close,
    },
    hub: {
      ...hub,
      async login(server, show, signal) {
        await hub.login(server, show, signal);
        await problemRecorder.clear(server);
      },
    },
    manifests: book,
    installer: desk,
    configure,
    logs: async (server, lines) =>
      options.logFolder === undefined ? [] : readServerLog(join(options.logFolder, `${server}.log`), lines),
    stopProcesses: (names) =>
      stopProcesses(names, options.processes, options.processFacts),
    list,
    async listWithRecords() {
      const [recorded, problems] = await Promise.all([options.recorded(), options.problems.all()]);
      const here = recorded.filter(({ host }) => host === options.processFacts.host);
      const times = await Promise.all(here.map(({ pid }) => readStartTime(pid)));
      const running = new Map(
        here.flatMap(({ server, pid, startedAt }, at) => (times[at] === startedAt ? [[server, pid] as const] : [])),
      );
      return list().map((view) => applyRecords(view, running.get(view.spec.name), problems.get(view.spec.name)));
    },
    close,
  };
}

function toServerView(spec: ServerSpec, hub: Hub, book: ManifestService): ServerView {
  const connection = hub.status(spec.name);
  const offer = book.offer(spec.name);
  return {
    spec,
    state: toServerState(connection, offer !== undefined),
    tools: book.tools(spec.name).length,
    withheld: book.withheld(spec.name).length,
    connection,
  };
}

/** What this process knows itself counts before what others have left on record. */
function applyRecords(view: ServerView, pid: number | undefined, problem: ServerProblem | undefined): ServerView {
  const { spec, connection } = view;
  if (connection.state !== "idle") return view;
  if (pid !== undefined) return { ...view, state: "started", connection: { ...connection, pid } };
  if (problem?.fingerprint !== fingerprintServer(spec)) return view;
  return { ...view, state: problem.state, connection: { ...connection, problem: problem.message } };
}

function toServerState({ state, called }: ConnectionStatus, isKnown: boolean): ServerState {
  if (state === "idle") return isKnown ? "known" : "configured";
  if (state === "ready") return called > 0 ? "called" : "started";
  return state;
}
