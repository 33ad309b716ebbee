import { join } from "node:path";
import type { Provider } from "../../catalog/provider.ts";
import type { Runtime } from "../../core/runtime.ts";
import { createHub, type HubOptions } from "../hub/create-hub.ts";
import type { ConnectionStatus, Hub } from "../hub/hub.ts";
import type { ProblemStore, ServerProblem } from "../hub/problem-store.ts";
import type { ProcessStore, StartedProcess } from "../hub/process-store.ts";
import { readServerLog } from "../hub/server-log.ts";
import { startTimeOf } from "../hub/start-time.ts";
import { stopProcesses } from "../hub/stop-processes.ts";
import type { ServerEvent } from "../hub/supervisor.ts";
import { type BookEvent, openBook, type ServerBook } from "../manifest/book.ts";
import type { ManifestStore } from "../manifest/manifest-store.ts";
import type { ServerDesk } from "../provider/desk.ts";
import { mcpProvider } from "../provider/provider.ts";
import type { Registry } from "../registry/registry.ts";
import type { SecretStore } from "../secret-store.ts";
import { fingerprintOf, type ServerSpec } from "../server-spec.ts";
import { createDesk, type DeskEvent, type DeskOptions, type ServerWriter } from "./desk.ts";
import { keepProblems } from "./last-problems.ts";

export type ServersEvent = ServerEvent | BookEvent | DeskEvent;

export interface ServersOptions
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
  readonly registry: Registry;
  readonly plans: DeskOptions["plans"];
  readonly unpack: DeskOptions["unpack"];
  /** Where servers are written down for good. */
  readonly writer: ServerWriter;
  /** Whether there are actions that find, install and remove servers. */
  readonly install: boolean;
  readonly note: (event: ServersEvent) => void;
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
export interface Servers {
  readonly provider: Provider;
  readonly hub: Hub;
  readonly book: ServerBook;
  readonly desk: ServerDesk;
  list(): readonly ServerView[];
  /** The same, with what other processes have left on record: what runs for them, and what was wrong last. */
  look(): Promise<readonly ServerView[]>;
  /** The newest lines that a server wrote to its error output, whichever process ran it. */
  logs(server: string, lines: number): Promise<readonly string[]>;
  /** Ends the processes of some servers, or of all, whichever process on this machine started them. */
  stopProcesses(servers: readonly string[]): Promise<readonly Pick<StartedProcess, "server" | "pid">[]>;
  /** The servers there are from now on. */
  configure(specs: readonly ServerSpec[]): Promise<void>;
  close(): Promise<void>;
}

export async function openServers(specs: readonly ServerSpec[], options: ServersOptions): Promise<Servers> {
  const { runtime, manifests, note, onProblem } = options;
  let current = specs;
  const listeners = new Set<() => void>();
  const changed = (): void => {
    for (const listener of listeners) listener();
  };
  const book = await openBook({ store: manifests, now: runtime.now, note, onProblem });
  const hub = createHub({
    ...options,
    learned: async (spec, offer) => {
      await book.learned(spec, offer);
    },
    remembered: (server) => book.offer(server)?.era,
  });
  const kept = keepProblems(options.problems, hub);
  const following = [
    book.onChange((server) => {
      // Somebody has reached it, in another process: what was wrong with it is not any more.
      const isWaiting = current.some(({ name }) => name === server) && hub.status(server).state === "failed";
      if (isWaiting) void hub.stop(server).catch(() => undefined);
      changed();
    }),
    hub.onChange((server) => {
      const spec = current.find(({ name }) => name === server);
      if (spec === undefined || hub.status(server).state !== "ready") book.disconnected(server);
      if (spec !== undefined) kept.look(spec);
    }),
  ];

  async function close(): Promise<void> {
    for (const stop of following) stop();
    await hub.close();
    await kept.settled();
  }

  async function configure(next: readonly ServerSpec[]): Promise<void> {
    current = next;
    book.use(next);
    await hub.configure(next);
    changed();
  }

  const list = () => current.map((spec) => viewOf(spec, hub, book));
  const desk = createDesk({
    ...options,
    hub,
    book,
    problems: { ...options.problems, clear: kept.clear },
    specs: () => current,
    configure,
  });
  const provider = mcpProvider({ ...options, hub, book, desk });
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
        await kept.clear(server);
      },
    },
    book,
    desk,
    configure,
    logs: async (server, lines) =>
      options.logFolder === undefined ? [] : readServerLog(join(options.logFolder, `${server}.log`), lines),
    stopProcesses: (names) => stopProcesses(names, options.processes, { ...options.processFacts, startTimeOf }),
    list,
    async look() {
      const [recorded, problems] = await Promise.all([options.recorded(), options.problems.all()]);
      const here = recorded.filter(({ host }) => host === options.processFacts.host);
      const times = await Promise.all(here.map(({ pid }) => startTimeOf(pid)));
      const running = new Map(
        here.flatMap(({ server, pid, startedAt }, at) => (times[at] === startedAt ? [[server, pid] as const] : [])),
      );
      return list().map((view) => withRecords(view, running.get(view.spec.name), problems.get(view.spec.name)));
    },
    close,
  };
}

function viewOf(spec: ServerSpec, hub: Hub, book: ServerBook): ServerView {
  const connection = hub.status(spec.name);
  const offer = book.offer(spec.name);
  return {
    spec,
    state: stateOf(connection, offer !== undefined),
    tools: book.tools(spec.name).length,
    withheld: book.withheld(spec.name).length,
    connection,
  };
}

/** What this process knows itself counts before what others have left on record. */
function withRecords(view: ServerView, pid: number | undefined, problem: ServerProblem | undefined): ServerView {
  const { spec, connection } = view;
  if (connection.state !== "idle") return view;
  if (pid !== undefined) return { ...view, state: "started", connection: { ...connection, pid } };
  if (problem?.fingerprint !== fingerprintOf(spec)) return view;
  return { ...view, state: problem.state, connection: { ...connection, problem: problem.message } };
}

function stateOf({ state, called }: ConnectionStatus, isKnown: boolean): ServerState {
  if (state === "idle") return isKnown ? "known" : "configured";
  if (state === "ready") return called > 0 ? "called" : "started";
  return state;
}
