import { basename, resolve } from "node:path";
import { findPackageFolder, readPackageInfo, systemProcess, systemRuntime } from "../app/system-runtime.ts";
import type { Provider } from "../catalog/define-action.ts";
import { CONFIG_FILE } from "../config/config-file.ts";
import type { LoadedConfig } from "../config/parse.ts";
import { type Environment, resolveReference } from "../config/references.ts";
import { canonicalJson } from "../core/json.ts";
import type { Sandbox } from "../core/sandbox.ts";
import { fileProvider } from "../providers/file/file-provider.ts";
import { sourceProvider } from "../providers/source/source-provider.ts";
import { webProvider } from "../providers/web/web-provider.ts";
import { createApiProvider } from "./apis.ts";
import { createExecProvider } from "./sandbox.ts";
import { getSecretsPath, resolveStorePath } from "./state-paths.ts";

interface BuiltInProvider {
  /** The settings it was made from. */
  readonly key: string;
  readonly provider: Provider;
}
export type BuiltInProviders = ReadonlyMap<string, BuiltInProvider>;

interface ProviderParts {
  readonly loaded: LoadedConfig;
  readonly env: Environment;
  readonly storePath: string;
  readonly fill: (text: string, key: string) => string;
  /** Files that no action may reach. */
  readonly protect: readonly string[];
  readonly onProblem: (problem: string) => void;
  readonly sandbox: Sandbox;
}

/** One line for each category. A provider whose settings have not changed is the same as in `before`. */
export function createProviders(parts: ProviderParts, before: BuiltInProviders = new Map()): BuiltInProviders {
  const { loaded, env, storePath, fill, protect, onProblem, sandbox } = parts;
  const { providers, apis } = loaded.config;
  const created = new Map<string, BuiltInProvider>();
  function add(category: string, settings: unknown, create: () => Provider | undefined): void {
    const key = canonicalJson(settings);
    const old = before.get(category);
    const provider = old?.key === key ? old.provider : create();
    if (provider !== undefined) created.set(category, old?.key === key ? old : { key, provider });
  }
  add("file", [providers.file, protect, loaded.config.infospace.enabled], () =>
    createFileProvider(loaded, env, protect),
  );
  const createSource = () => sourceProvider({ folder: findPackageFolder() });
  add("qm_source", providers.source, () => (providers.source.enabled ? createSource() : undefined));
  add("web", providers.web, () => createWebProvider(loaded, fill));
  add("exec", providers.exec, () => createExecProvider(loaded, fill, sandbox));
  const used = Object.entries(apis).filter(([, { enabled }]) => enabled);
  if (used.length > 0) add("api", used, () => createApiProvider(used, { storePath, fill, onProblem }));
  return created;
}

function createFileProvider(loaded: LoadedConfig, env: Environment, protect: readonly string[]): Provider | undefined {
  const { enabled, readOnly } = loaded.config.providers.file;
  if (!enabled) return undefined;
  // In every folder: a configuration applies to every process that starts there.
  const names = [CONFIG_FILE, basename(loaded.path ?? CONFIG_FILE)];
  // A restored store leaves the former one beside it.
  const formerStores = `${basename(resolveStorePath(loaded, env))}.*`;
  const protectNames = [CONFIG_FILE, formerStores, ...names.flatMap(listLeftoverPatterns)];
  // Without the infospace a long result is cut instead of stored, so files come in slices.
  const limits = loaded.config.infospace.enabled ? {} : { maxWholeBytes: 1 };
  return fileProvider({ root: resolveFileRoot(loaded, env), readOnly, protect, protectNames, ...limits });
}

/** Backups of a configuration, and what a crash leaves while it or the secrets are written. */
const listLeftoverPatterns = (name: string) => [`${name}.bak-*`, `.${name}.*`, `.${basename(getSecretsPath(""))}.*`];

export const resolveFileRoot = ({ config, folder }: LoadedConfig, env: Environment): string =>
  resolve(folder, resolveReference(config.providers.file.root, env, "providers.file.root"));

const BRAVE_URL = "https://api.search.brave.com/res/v1/web/search";

function createWebProvider(loaded: LoadedConfig, fill: ProviderParts["fill"]): Provider | undefined {
  const { enabled, search, ...settings } = loaded.config.providers.web;
  if (!enabled) return undefined;
  const fillKey = (text: string | undefined, key: string) => text && fill(text, `providers.web.search.${key}`);
  const endpoint = search && {
    kind: search.kind,
    // Filled for each search, so that a secret stored later counts.
    read: () => ({ url: fillKey(search.url, "url") ?? BRAVE_URL, token: fillKey(search.token, "token") }),
  };
  const userAgent = `Quartermaster/${readPackageInfo().version}`;
  const { nodePath } = systemProcess;
  return webProvider({ ...settings, search: endpoint, userAgent, nodePath, elapsed: systemRuntime.elapsed });
}
