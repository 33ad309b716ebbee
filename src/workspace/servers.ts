import { existsSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { readPackageInfo, systemProcess } from "../app/system-runtime.ts";
import { CONFIG_FILE } from "../config/config-file.ts";
import { addConfiguredServers, removeConfiguredServer } from "../config/edit-servers.ts";
import type { LoadedConfig } from "../config/parse.ts";
import { type Environment, resolveReference, SECRET_PREFIX } from "../config/references.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Tracer } from "../core/tracing.ts";
import type { ProcessStore } from "../mcp/hub/server-processes.ts";
import { unpackBundle } from "../mcp/install/bundle.ts";
import { createGitLsRemote } from "../mcp/install/github.ts";
import { createInstallPlanner } from "../mcp/install/install-planner.ts";
import { createServerRegistry } from "../mcp/install/server-registry.ts";
import { type McpServers, type McpServersEvent, openMcpServers } from "../mcp/provider/mcp-servers.ts";
import type { ServerConfigWriter } from "../mcp/provider/server-installer.ts";
import type { SecretStore } from "../mcp/secret-store.ts";
import { openSqliteStore } from "../store/open-store.ts";
import { parseServerSpec, toServerSpec, toServerSpecs } from "./config-mapping.ts";
import { openSecretsFile, readSecrets } from "./secrets.ts";
import { getBundleFolder, getLogFolder, getSecretsPath } from "./state-paths.ts";
import type { WorkspacePurpose } from "./workspace.ts";

export interface WorkspaceServersOptions {
  readonly loaded: LoadedConfig;
  readonly cwd: string;
  readonly env: Environment;
  readonly runtime: Runtime;
  readonly storePath: string;
  readonly purpose: WorkspacePurpose;
  readonly tracer: Tracer;
  readonly note: (event: McpServersEvent) => void;
  readonly onProblem: (problem: string) => void;
}

/** The variables of the process, and with them the stored secrets of this moment. */
export function mergeStoredSecrets(env: Environment, storePath: string): Environment {
  const secrets = readSecrets(getSecretsPath(storePath));
  const stored = Object.entries(secrets).map(([name, value]) => [`${SECRET_PREFIX}${name}`, value]);
  // A process can be given a variable of such a name, too.
  const variables = Object.entries(env).filter(([name]) => !name.startsWith(SECRET_PREFIX));
  return Object.fromEntries([...variables, ...stored]);
}

/** Fills references. Secrets are read when a text refers to one, and so a file of secrets that is broken harms no other. */
export function createReferenceFiller(env: Environment, storePath: string): (text: string, key: string) => string {
  return (text, key) =>
    resolveReference(text, text.includes(SECRET_PREFIX) ? mergeStoredSecrets(env, storePath) : env, key);
}

export interface WorkspaceServers {
  /** Undefined where only the ledger is wanted. */
  readonly servers: McpServers | undefined;
  readonly secrets: SecretStore;
  close(): Promise<void>;
}

/** The servers of a configuration file. */
export async function openWorkspaceServers(options: WorkspaceServersOptions): Promise<WorkspaceServers> {
  const { loaded, cwd, env, runtime, storePath, purpose, tracer, note, onProblem } = options;
  const { mcp } = loaded.config;
  const secrets = openSecretsFile(getSecretsPath(storePath), runtime);
  if (purpose === "ledger") return { servers: undefined, secrets, close: async () => {} };
  // Who only looks reads what was learned before, and leaves nothing behind.
  const isThere = purpose === "calls" || existsSync(storePath);
  const store = await openSqliteStore(isThere ? storePath : ":memory:", { now: runtime.now });
  const registry = createServerRegistry({ url: mcp.registry, fetch, store: store.registry, now: runtime.now });
  const opening = openMcpServers(toServerSpecs(loaded.config, loaded.folder), {
    runtime,
    manifests: store.manifests,
    processes: purpose === "looking" ? emptyProcessStore : store.processes,
    tracer,
    processFacts: systemProcess,
    recorded: store.processes.all,
    problems: store.problems,
    secrets,
    registry,
    plans: createInstallPlanner({
      registry,
      fetch,
      npmUrl: env.npm_config_registry,
      lsRemote: createGitLsRemote(env),
      bundleFolder: getBundleFolder(storePath),
      hasCommand: (command) => isOnPath(command, env),
      platform: process.platform,
      home: env.HOME ?? env.USERPROFILE,
      secretNames: secrets.names,
    }),
    unpack: (file, signal) => unpackBundle(file, { fetch, registry: registry.url }, signal),
    writer: createServerWriter(loaded, cwd, runtime),
    install: mcp.install,
    startingAtOnce: mcp.starting_at_once,
    environment: env,
    fill: createReferenceFiller(env, storePath),
    clientInfo: readPackageInfo(),
    logFolder: getLogFolder(storePath),
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
const emptyProcessStore: ProcessStore = { add: async () => {}, remove: async () => {}, all: async () => [] };

/** Whether a program can be started by its name alone. */
function isOnPath(command: string, { PATH = "" }: Environment): boolean {
  const endings = process.platform === "win32" ? [".exe", ".cmd", ".bat", ""] : [""];
  return PATH.split(delimiter).some((folder) => endings.some((ending) => existsSync(join(folder, command + ending))));
}

/** The stored secrets that a configuration refers to, wherever in it. */
export function listReferencedSecrets({ references }: LoadedConfig): readonly string[] {
  const names = references.map(({ variable }) => variable).filter((variable) => variable.startsWith(SECRET_PREFIX));
  return names.map((variable) => variable.slice(SECRET_PREFIX.length));
}

function createServerWriter({ path, folder }: LoadedConfig, cwd: string, runtime: Runtime): ServerConfigWriter {
  const file = path ?? resolve(cwd, CONFIG_FILE);
  return {
    add: async (name, entry, beforeWriting) =>
      void (await addConfiguredServers(file, { [name]: entry }, { ...runtime, beforeWriting })),
    async remove(name) {
      const { before, after } = await removeConfiguredServer(file, name, runtime);
      const { [name]: server } = before.config.servers;
      if (server === undefined) throw new TypeError(`${name} was never there`);
      return { spec: toServerSpec(name, server, folder), secretsInUse: listReferencedSecrets(after) };
    },
    parseEntry: (name, entry) => parseServerSpec(name, entry, folder),
  };
}
