import type { Provider } from "../../catalog/provider.ts";
import type { Runtime } from "../../core/runtime.ts";
import { createHub, type HubOptions } from "../hub/create-hub.ts";
import type { ConnectionStatus, Hub } from "../hub/hub.ts";
import type { StartedProcess } from "../hub/process-store.ts";
import { startTimeOf } from "../hub/start-time.ts";
import { stopProcesses } from "../hub/stop-processes.ts";
import type { ServerEvent } from "../hub/supervisor.ts";
import { type BookEvent, openBook, type ServerBook } from "../manifest/book.ts";
import type { ManifestStore } from "../manifest/manifest-store.ts";
import type { ServerDesk } from "../provider/desk.ts";
import { mcpProvider } from "../provider/provider.ts";
import type { Registry } from "../registry/registry.ts";
import type { SecretStore } from "../secret-store.ts";
import type { ServerSpec } from "../server-spec.ts";
import { createDesk, type DeskEvent, type DeskOptions, type ServerWriter } from "./desk.ts";

export type ServersEvent = ServerEvent | BookEvent | DeskEvent;

export interface ServersOptions
  extends Pick<
    HubOptions,
    "fill" | "environment" | "processes" | "processFacts" | "startingAtOnce" | "clientInfo" | "logFolder"
  > {
  readonly runtime: Runtime;
  readonly manifests: ManifestStore;
  readonly secrets: SecretStore;
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
  readonly onResourceUpdated: Hub["onResourceUpdated"];
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
  const following = [
    book.onChange(changed),
    hub.onChange((server) => {
      const isThere = current.some(({ name }) => name === server);
      if (!isThere || hub.status(server).state !== "ready") book.disconnected(server);
    }),
  ];

  async function close(): Promise<void> {
    for (const stop of following) stop();
    await hub.close();
  }

  async function configure(next: readonly ServerSpec[]): Promise<void> {
    current = next;
    book.use(next);
    await hub.configure(next);
    changed();
  }

  const desk = createDesk({ ...options, hub, book, specs: () => current, configure });
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
    hub,
    book,
    desk,
    configure,
    onResourceUpdated: hub.onResourceUpdated,
    stopProcesses: (names) => stopProcesses(names, options.processes, { ...options.processFacts, startTimeOf }),
    list: () => current.map((spec) => viewOf(spec, hub, book)),
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

function stateOf({ state, called }: ConnectionStatus, isKnown: boolean): ServerState {
  if (state === "idle") return isKnown ? "known" : "configured";
  if (state === "ready") return called > 0 ? "called" : "started";
  return state;
}
