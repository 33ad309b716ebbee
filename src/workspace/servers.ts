import { existsSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { readPackageInfo, systemProcess } from "../app/system-runtime.ts";
import { CONFIG_FILE } from "../config/config-file.ts";
import { addConfiguredServers, removeConfiguredServer } from "../config/edit-servers.ts";
import type { LoadedConfig } from "../config/parse.ts";
import type { Environment } from "../config/references.ts";
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
import { createReferenceFiller, listReferencedSecrets } from "./secrets.ts";
import { getBundleFolder, getLogFolder } from "./state-paths.ts";

interface WorkspaceServersOptions {
  readonly loaded: LoadedConfig;
  readonly cwd: string;
  readonly env: Environment;
  readonly runtime: Runtime;
  readonly storePath: string;
  readonly secrets: SecretStore;
  readonly isReadOnly: boolean;
  readonly tracer: Tracer;
  readonly note: (event: McpServersEvent) => void;
  readonly onProblem: (problem: string) => void;
}

/** The servers of a configuration file. The returned function closes them and their store. */
export async function openWorkspaceServers(
  options: WorkspaceServersOptions,
): Promise<{ readonly servers: McpServers; close(): Promise<void> }> {
  const { loaded, cwd, env, runtime, storePath, secrets, isReadOnly, tracer, note, onProblem } = options;
  const { mcp } = loaded.config;
  // A read-only workspace reads the manifests of earlier calls and creates no file.
  const path = isReadOnly && !existsSync(storePath) ? ":memory:" : storePath;
  const store = await openSqliteStore(path, { now: runtime.now });
  const registry = createServerRegistry({ url: mcp.registry, fetch, store: store.registry, now: runtime.now });
  const opening = openMcpServers(toServerSpecs(loaded.config, loaded.folder), {
    runtime,
    manifests: store.manifests,
    processes: isReadOnly ? emptyProcessStore : store.processes,
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
    startingAtOnce: mcp.startingAtOnce,
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
    async close() {
      await servers.close();
      await store.close();
    },
  };
}

/** Lets a read-only workspace leave the processes of others alone. */
const emptyProcessStore: ProcessStore = { add: async () => {}, remove: async () => {}, all: async () => [] };

function isOnPath(command: string, { PATH = "" }: Environment): boolean {
  const endings = process.platform === "win32" ? [".exe", ".cmd", ".bat", ""] : [""];
  return PATH.split(delimiter).some((folder) => endings.some((ending) => existsSync(join(folder, command + ending))));
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
