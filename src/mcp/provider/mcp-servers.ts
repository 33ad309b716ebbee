import { join } from "node:path";
import type { Provider } from "../../catalog/define-action.ts";
import { type ConnectionStatus, createHub, type Hub, type HubOptions } from "../hub/hub.ts";
import { readServerLog } from "../hub/server-log.ts";
import { createProblemRecorder, type ServerProblem } from "../hub/server-problems.ts";
import { type ProcessStore, readStartTime, stopProcesses } from "../hub/server-processes.ts";
import type { ServerEvent } from "../hub/supervisor.ts";
import { type ManifestEvent, type ManifestService, openManifestService } from "../manifests/manifest-service.ts";
import type { ManifestStore } from "../manifests/manifest-store.ts";
import { fingerprintServer, type ServerSpec } from "../server-spec.ts";
import { createMcpProvider } from "./mcp-provider.ts";
import { createServerInstaller, type InstallerEvent, type ServerInstallerOptions } from "./server-installer.ts";

export type McpServersEvent = ServerEvent | ManifestEvent | InstallerEvent;

export interface McpServersOptions
  extends Omit<HubOptions, "onOffer" | "getKnownEra" | "note" | "limits">,
    Pick<ServerInstallerOptions, "registry" | "plans" | "unpack" | "writer" | "problems"> {
  readonly manifests: ManifestStore;
  /** The recorded processes, even if `processes` records none. */
  readonly recorded: ProcessStore["all"];
  /** Whether there are actions that find, install and remove servers. */
  readonly install: boolean;
  readonly note: (event: McpServersEvent) => void;
  readonly onProblem: (problem: string) => void;
}

/** `configured`: tools unknown. `known`: tools known, not running. `called`: started, and calls were sent. */
export type ServerState = "configured" | "known" | "starting" | "started" | "called" | "needs_login" | "failed";

export interface ServerView {
  readonly spec: ServerSpec;
  readonly state: ServerState;
  readonly tools: number;
  readonly withheld: number;
  readonly connection: ConnectionStatus;
}

export type McpServers = Awaited<ReturnType<typeof openMcpServers>>;

/** The configured MCP servers. Their tools are the actions of `provider`. */
export async function openMcpServers(specs: readonly ServerSpec[], options: McpServersOptions) {
  const { runtime, note, onProblem, problems, processes, processFacts, logFolder } = options;
  let current = specs;
  const listeners = new Set<() => void>();
  const notifyListeners = (): void => {
    for (const listener of listeners) listener();
  };
  const manifests = await openManifestService({ store: options.manifests, now: runtime.now, note, onProblem });
  const hub: Hub = createHub({
    ...options,
    onOffer: (spec, offer) => manifests.learn(spec, offer),
    getKnownEra: (server) => manifests.offer(server)?.era,
  });
  const recorder = createProblemRecorder(problems, hub);
  const findSpec = (server: string) => current.find(({ name }) => name === server);
  const subscriptions = [
    manifests.onChange((server) => {
      // Another process has reached the server, so its failure is over.
      const hasFailed = findSpec(server) !== undefined && hub.status(server).state === "failed";
      if (hasFailed) void hub.stop(server).catch(() => undefined);
      notifyListeners();
    }),
    hub.onChange((server) => {
      const spec = findSpec(server);
      if (spec === undefined || hub.status(server).state !== "ready") manifests.markDisconnected(server);
      if (spec !== undefined) recorder.record(spec);
    }),
  ];

  const login: Hub["login"] = async (server, show, signal) => {
    await hub.login(server, show, signal);
    await recorder.clear(server);
  };

  async function close(): Promise<void> {
    for (const unsubscribe of subscriptions) unsubscribe();
    await hub.close();
    await recorder.settled();
  }

  async function configure(next: readonly ServerSpec[]): Promise<void> {
    current = next;
    manifests.use(next);
    await hub.configure(next);
    notifyListeners();
  }

  const list = (): readonly ServerView[] => current.map((spec) => toServerView(spec, hub, manifests));
  const recorded = { problems: { ...problems, clear: recorder.clear }, specs: () => current };
  const installer = createServerInstaller({ ...options, hub, manifests, ...recorded, configure });
  const provider = createMcpProvider({ ...options, hub, manifests, installer });
  await configure(specs);

  async function listWithRecords(): Promise<readonly ServerView[]> {
    const [recorded, known] = await Promise.all([options.recorded(), problems.all()]);
    const here = recorded.filter(({ host }) => host === processFacts.host);
    const times = await Promise.all(here.map(({ pid }) => readStartTime(pid)));
    const alive = here.filter(({ startedAt }, at) => times[at] === startedAt);
    const running = new Map(alive.map(({ server, pid }) => [server, pid]));
    return list().map((view) => applyRecords(view, running.get(view.spec.name), known.get(view.spec.name)));
  }

  return {
    provider: {
      ...provider,
      watch(onChange: () => void) {
        listeners.add(onChange);
        return () => listeners.delete(onChange);
      },
      close,
    } satisfies Provider,
    hub: { ...hub, login },
    manifests,
    installer,
    configure,
    /** The newest stderr lines of a server, from any process that ran it. */
    logs: async (server: string, lines: number) =>
      logFolder === undefined ? [] : readServerLog(join(logFolder, `${server}.log`), lines),
    /** Ends the processes of some servers, or of all, that any process on this machine started. */
    stopProcesses: (names: readonly string[]) => stopProcesses(names, processes, processFacts),
    list,
    /** Like `list`, with the recorded processes and problems of other processes. */
    listWithRecords,
    /** The servers to ask for their tools: not those that wait for a login, or that another process asks now. */
    async listUnknown(): Promise<readonly string[]> {
      await manifests.refresh();
      const views = (await listWithRecords()).filter(({ spec }) => manifests.offer(spec.name) === undefined);
      return views.filter(({ state }) => state === "configured" || state === "failed").map(({ spec }) => spec.name);
    },
    close,
  };
}

function toServerView(spec: ServerSpec, hub: Hub, manifests: ManifestService): ServerView {
  const { name } = spec;
  const connection = hub.status(name);
  const state = toServerState(connection, manifests.offer(name) !== undefined);
  return { spec, state, tools: manifests.tools(name).length, withheld: manifests.withheld(name).length, connection };
}

/** Adds the records of other processes if this process is not connected. */
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
