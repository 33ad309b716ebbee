import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import type { Environment } from "../config/references.ts";
import { type BundleSource, unpackBundle } from "../mcp/install/bundle.ts";
import { createGitLsRemote } from "../mcp/install/github.ts";
import type { BundleFile } from "../mcp/install/install-plan.ts";
import { createInstallPlanner } from "../mcp/install/install-planner.ts";
import { createServerRegistry, type ServerRegistryOptions } from "../mcp/install/server-registry.ts";
import type { SecretStore } from "../mcp/secret-store.ts";

interface InstallOptions extends Pick<ServerRegistryOptions, "url" | "store" | "now"> {
  readonly env: Environment;
  readonly secrets: SecretStore;
  readonly bundleFolder: string;
}

/** Finds and plans servers. Loaded when a caller first searches for or installs one. */
export function createInstallServices({ env, secrets, bundleFolder, ...options }: InstallOptions) {
  const registry = createServerRegistry({ ...options, fetch });
  const source: BundleSource = { fetch, registry: registry.url };
  const plan = createInstallPlanner({
    registry,
    fetch,
    npmUrl: env.npm_config_registry,
    lsRemote: createGitLsRemote(env),
    bundleFolder,
    hasCommand: (command) => isOnPath(command, env),
    platform: process.platform,
    home: env.HOME ?? env.USERPROFILE,
    secretNames: secrets.names,
  });
  return {
    registry,
    plan,
    unpack: (file: BundleFile, signal?: AbortSignal) => unpackBundle(file, source, signal),
  };
}

function isOnPath(command: string, { PATH = "" }: Environment): boolean {
  const endings = process.platform === "win32" ? [".exe", ".cmd", ".bat", ""] : [""];
  return PATH.split(delimiter).some((folder) => endings.some((ending) => existsSync(join(folder, command + ending))));
}
