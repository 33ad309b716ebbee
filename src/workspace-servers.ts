import { existsSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { addServers, removeServer } from "./config/edit.ts";
import { CONFIG_FILE } from "./config/load.ts";
import type { LoadedConfig } from "./config/parse.ts";
import { type Environment, resolveReference, SECRET } from "./config/references.ts";
import type { Runtime } from "./core/runtime.ts";
import type { Tracer } from "./core/tracing.ts";
import type { ProcessStore } from "./mcp/hub/process-store.ts";
import { unpackBundle } from "./mcp/registry/bundle/bundle.ts";
import { gitLsRemote } from "./mcp/registry/github.ts";
import { createPlanner } from "./mcp/registry/planner.ts";
import { createRegistry } from "./mcp/registry/registry.ts";
import type { SecretStore } from "./mcp/secret-store.ts";
import type { ServerWriter } from "./mcp/servers/desk.ts";
import { openServers, type Servers, type ServersEvent } from "./mcp/servers/servers.ts";
import { packageFacts } from "./package-facts.ts";
import { readSecrets, secretsFile } from "./secrets-file.ts";
import { serverSpecsOf, specOf, specOfEntry } from "./server-specs.ts";
import { openSqliteStore } from "./store/open.ts";
import { bundleFolderOf, logFolderOf, secretsPathOf } from "./store-places.ts";
import { systemProcess } from "./system-runtime.ts";
import type { Purpose } from "./workspace.ts";

export interface WorkspaceServersOptions {
  readonly loaded: LoadedConfig;
  readonly cwd: string;
  readonly env: Environment;
  readonly runtime: Runtime;
  readonly storePath: string;
  readonly purpose: Purpose;
  readonly tracer: Tracer;
  readonly note: (event: ServersEvent) => void;
  readonly onProblem: (problem: string) => void;
}

/** The variables of the process, and with them the stored secrets of this moment. */
export function withSecrets(env: Environment, storePath: string): Environment {
  const secrets = readSecrets(secretsPathOf(storePath));
  const stored = Object.entries(secrets).map(([name, value]) => [`${SECRET}${name}`, value]);
  // A process can be given a variable of such a name, too.
  const variables = Object.entries(env).filter(([name]) => !name.startsWith(SECRET));
  return Object.fromEntries([...variables, ...stored]);
}

/** Fills references. Secrets are read when a text refers to one, and so a file of secrets that is broken harms no other. */
export function fillerOf(env: Environment, storePath: string): (text: string, key: string) => string {
  return (text, key) => resolveReference(text, text.includes(SECRET) ? withSecrets(env, storePath) : env, key);
}

export interface WorkspaceServers {
  /** Undefined where only the ledger is wanted. */
  readonly servers: Servers | undefined;
  readonly secrets: SecretStore;
  close(): Promise<void>;
}

/** The servers of a configuration file. */
export async function openWorkspaceServers(options: WorkspaceServersOptions): Promise<WorkspaceServers> {
  const { loaded, cwd, env, runtime, storePath, purpose, tracer, note, onProblem } = options;
  const { mcp } = loaded.config;
  const secrets = secretsFile(secretsPathOf(storePath), runtime);
  if (purpose === "ledger") return { servers: undefined, secrets, close: async () => {} };
  // Who only looks reads what was learned before, and leaves nothing behind.
  const isThere = purpose === "calls" || existsSync(storePath);
  const store = await openSqliteStore(isThere ? storePath : ":memory:", { now: runtime.now });
  const registry = createRegistry({ url: mcp.registry, fetch, store: store.registry, now: runtime.now });
  const opening = openServers(serverSpecsOf(loaded.config, loaded.folder), {
    runtime,
    manifests: store.manifests,
    processes: purpose === "looking" ? noProcesses : store.processes,
    tracer,
    processFacts: systemProcess,
    recorded: store.processes.all,
    problems: store.problems,
    secrets,
    registry,
    plans: createPlanner({
      registry,
      fetch,
      npmUrl: env.npm_config_registry,
      lsRemote: gitLsRemote(env),
      bundleFolder: bundleFolderOf(storePath),
      hasCommand: (command) => isOnPath(command, env),
      platform: process.platform,
      home: env.HOME ?? env.USERPROFILE,
      secretNames: secrets.names,
    }),
    unpack: (file, signal) => unpackBundle(file, { fetch, registry: registry.url }, signal),
    writer: writerOf(loaded, cwd, runtime),
    install: mcp.install,
    startingAtOnce: mcp.starting_at_once,
    environment: env,
    fill: fillerOf(env, storePath),
    clientInfo: packageFacts(),
    logFolder: logFolderOf(storePath),
    note,
    onProblem,
  });
  const servers = await opening.catch(async (thrown: unknown) => {
    await store.close();
    throw thrown;
  });
  return {
    servers,
    secrets,
    async close() {
      await servers.close();
      await store.close();
    },
  };
}

/** Who only looks does not tidy up after others, either. */
const noProcesses: ProcessStore = { add: async () => {}, remove: async () => {}, all: async () => [] };

/** Whether a program can be started by its name alone. */
function isOnPath(command: string, { PATH = "" }: Environment): boolean {
  const endings = process.platform === "win32" ? [".exe", ".cmd", ".bat", ""] : [""];
  return PATH.split(delimiter).some((folder) => endings.some((ending) => existsSync(join(folder, command + ending))));
}

/** The stored secrets that a configuration refers to, wherever in it. */
export function secretsReferredTo({ references }: LoadedConfig): readonly string[] {
  const names = references.map(({ variable }) => variable).filter((variable) => variable.startsWith(SECRET));
  return names.map((variable) => variable.slice(SECRET.length));
}

function writerOf({ path, folder }: LoadedConfig, cwd: string, runtime: Runtime): ServerWriter {
  const file = path ?? resolve(cwd, CONFIG_FILE);
  return {
    add: async (name, entry, beforeWriting) =>
      void (await addServers(file, { [name]: entry }, { ...runtime, beforeWriting })),
    async remove(name) {
      const { before, after } = await removeServer(file, name, runtime);
      const { [name]: server } = before.config.servers;
      if (server === undefined) throw new TypeError(`${name} was never there`);
      return { spec: specOf(name, server, folder), secretsInUse: secretsReferredTo(after) };
    },
    specOf: (name, entry) => specOfEntry(name, entry, folder),
  };
}
