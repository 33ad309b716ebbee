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
  const { install, startingAtOnce, registry: url } = loaded.config.mcp;
  // A read-only workspace reads the manifests of earlier calls and creates no file.
  const path = isReadOnly && !existsSync(storePath) ? ":memory:" : storePath;
  const store = await openSqliteStore(path, { now: runtime.now });
  const { manifests, problems, processes } = store;
  const registry = createServerRegistry({ url, fetch, store: store.registry, now: runtime.now });
  const services = { runtime, tracer, secrets, registry, manifests, problems, note, onProblem };
  const opening = openMcpServers(toServerSpecs(loaded.config, loaded.folder), {
    ...services,
    install,
    startingAtOnce,
    processes: isReadOnly ? emptyProcessStore : processes,
    processFacts: systemProcess,
    recorded: processes.all,
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
    environment: env,
    fill: createReferenceFiller(env, storePath),
    clientInfo: readPackageInfo(),
    logFolder: getLogFolder(storePath),
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
