import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { readPackageInfo, systemProcess } from "../app/system-runtime.ts";
import { CONFIG_FILE } from "../config/config-file.ts";
import { addConfiguredServers, removeConfiguredServer } from "../config/edit-config.ts";
import type { LoadedConfig } from "../config/parse.ts";
import type { Environment } from "../config/references.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Sandbox } from "../core/sandbox.ts";
import type { Tracer } from "../core/tracing.ts";
import type { ProcessStore } from "../mcp/hub/server-processes.ts";
import { requireSafeUrl } from "../mcp/install/fetch-document.ts";
import { type McpServers, type McpServersEvent, openMcpServers } from "../mcp/provider/mcp-servers.ts";
import type { ServerConfigWriter } from "../mcp/provider/server-installer.ts";
import type { SecretStore } from "../mcp/secret-store.ts";
import type { SkillPinStore } from "../providers/skill/skill-pins.ts";
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
  readonly sandbox: Sandbox;
  readonly note: (event: McpServersEvent) => void;
  readonly onProblem: (problem: string) => void;
}

/** The servers of a configuration file. The returned function closes them and their store. */
export async function openWorkspaceServers(
  options: WorkspaceServersOptions,
): Promise<{ readonly servers: McpServers; readonly skillPins: SkillPinStore; close(): Promise<void> }> {
  const { loaded, cwd, env, runtime, storePath, secrets, isReadOnly, tracer, sandbox, note, onProblem } = options;
  const { install, startingAtOnce, registry: url } = loaded.config.mcp;
  requireSafeUrl(url, "mcp.registry");
  // A read-only workspace reads the manifests of earlier calls and creates no file.
  const path = isReadOnly && !existsSync(storePath) ? ":memory:" : storePath;
  const store = await openSqliteStore(path, { now: runtime.now });
  const { manifests, problems, processes } = store;
  const bundleFolder = getBundleFolder(storePath);
  const installOptions = { url, store: store.registry, now: runtime.now, env, secrets, bundleFolder };
  let installing: ReturnType<typeof loadInstall> | undefined;
  const loadInstall = async () => (await import("./install.ts")).createInstallServices(installOptions);
  const openInstall = () => (installing ??= loadInstall());
  const services = { runtime, tracer, sandbox, secrets, manifests, problems, note, onProblem };
  const opening = openMcpServers(toServerSpecs(loaded.config, loaded.folder), {
    ...services,
    install,
    startingAtOnce,
    processes: isReadOnly ? emptyProcessStore : processes,
    processFacts: systemProcess,
    recorded: processes.all,
    registry: { search: async (text, query) => (await openInstall()).registry.search(text, query) },
    plans: async (request, signal) => (await openInstall()).plan(request, signal),
    unpack: async (file, signal) => (await openInstall()).unpack(file, signal),
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
    skillPins: store.skillPins,
    async close() {
      await servers.close();
      await store.close();
    },
  };
}

/** Lets a read-only workspace leave the processes of others alone. */
const emptyProcessStore: ProcessStore = { add: async () => {}, remove: async () => {}, all: async () => [] };

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
