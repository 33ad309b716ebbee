import { existsSync, realpathSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { createQuartermaster, type Quartermaster } from "../app/quartermaster.ts";
import { readPackageInfo, systemRuntime } from "../app/system-runtime.ts";
import type { Provider } from "../catalog/define-action.ts";
import { CONFIG_FILE, loadConfig, watchConfig } from "../config/config-file.ts";
import { findLooserSettings } from "../config/looser-settings.ts";
import type { LoadedConfig } from "../config/parse.ts";
import { type Environment, resolveReference } from "../config/references.ts";
import type { Config } from "../config/schema.ts";
import { QmError } from "../core/errors.ts";
import { CALL_VARIABLES, compileCondition } from "../core/expression.ts";
import { canonicalJson } from "../core/json.ts";
import { silentTracer, type Tracer } from "../core/tracing.ts";
import { STATE_FOLDER } from "../files/safe-files.ts";
import type { McpServers, McpServersEvent } from "../mcp/provider/mcp-servers.ts";
import type { SecretStore } from "../mcp/secret-store.ts";
import { fileProvider } from "../providers/file/file-provider.ts";
import {
  resolveIndexPath,
  toInfospaceSettings,
  toPolicyOptions,
  toRouteRules,
  toSearchSettings,
  toServerSpecs,
  toSurfaceChoice,
} from "./config-mapping.ts";
import { createSecretLister } from "./secrets.ts";
import { createReferenceFiller, listReferencedSecrets, mergeStoredSecrets, openWorkspaceServers } from "./servers.ts";
import { getSecretsPath, listStatePaths } from "./state-paths.ts";

/**
 * - `calls`: everything, written to the configured store
 * - `looking`: the actions and the policy; what is recorded stays in memory, so that looking leaves nothing behind
 * - `ledger`: the configured store alone, without providers; nothing is recorded, and a store that is not there is empty
 */
export type WorkspacePurpose = "calls" | "looking" | "ledger";

export interface WorkspaceOptions {
  /** Where `quartermaster.yaml` is looked for, from here upwards. */
  readonly cwd: string;
  /** What `${env:NAME}` is filled from. */
  readonly env: Environment;
  /** This file and no other. Relative to `cwd`. */
  readonly configPath?: string | undefined;
  /** Told what is wrong but does not stop the work: a provider's faults, a change of the file that was not taken. */
  readonly onProblem?: (problem: string) => void;
  /** Whether a change of the file is taken over while this is open. Without a file there is nothing to watch. */
  readonly watch?: boolean;
  /** Absent: `calls`. */
  readonly purpose?: WorkspacePurpose;
}

/** A quartermaster as `quartermaster.yaml` describes it. */
export interface Workspace {
  readonly quartermaster: Quartermaster;
  /** The configuration in force. */
  readonly config: Config;
  /** Absent: there is no file, everything is a default. */
  readonly configPath: string | undefined;
  /** The file of the ledger, whether it is there yet or not. */
  readonly storePath: string;
  /** The MCP servers. Throws `conflict` where the workspace was opened for its ledger alone. */
  readonly servers: McpServers;
  /** What the configuration refers to as `${secret:NAME}`. */
  readonly secrets: SecretStore;
  /** Fills the references of a configured text, stored secrets included. Throws `invalid_config`. */
  readonly fill: (text: string, key: string) => string;
  /** Who is told what is done and how long it takes. */
  readonly tracer: Tracer;
  close(): Promise<void>;
}

/** Throws `invalid_config` with every problem of the file, and `store_failed` when the store cannot be used. */
export async function openWorkspace(options: WorkspaceOptions): Promise<Workspace> {
  const { cwd, env, configPath, onProblem = () => {}, watch = false, purpose = "calls" } = options;
  const reading = { env, compileExpression: (text: string) => compileCondition(text, CALL_VARIABLES) };
  let loaded = await loadConfig(configPath, { cwd, ...reading });
  const storePath = resolveStorePath(loaded, env);
  const listSecrets = createSecretLister(env, getSecretsPath(storePath), onProblem);
  // Only where nothing refers to a secret can the file of secrets be broken.
  const filling = listReferencedSecrets(loaded).length === 0 ? env : mergeStoredSecrets(env, storePath);
  const { limits, ledger } = loaded.config;
  let file = purpose === "ledger" ? undefined : createFileProvider(loaded, env, listProtectedPaths(loaded));
  const policy = toPolicyOptions(loaded.config);

  const tracer = purpose === "calls" ? await openTracer(loaded.config) : silentTracer;

  // The servers are there before the quartermaster that writes down what happens to them.
  let note = (_event: McpServersEvent): void => {};
  const connected = await openWorkspaceServers({
    loaded,
    cwd,
    env,
    runtime: systemRuntime,
    storePath,
    purpose,
    tracer,
    note: (event) => note(event),
    onProblem,
  });

  const quartermaster = await startQuartermaster().catch(async (thrown: unknown) => {
    await connected.close();
    throw thrown;
  });
  note = quartermaster.note;
  if (purpose !== "ledger") {
    // They only have less than they were meant to have, so it does not stop the work.
    for (const problem of [...quartermaster.actorProblems(), ...quartermaster.policyWarnings()]) onProblem(problem);
    recordLoaded();
  }
  const { path } = loaded;
  if (path !== undefined && loaded.isEmpty) onProblem(`${path} has no content: the defaults allow every action`);
  const ignored = path === undefined ? MISTAKEN_FILES.find((name) => existsSync(join(cwd, name))) : undefined;
  if (ignored !== undefined) onProblem(`${ignored} is not read: call it ${CONFIG_FILE}`);
  const stopWatching =
    watch && path !== undefined
      ? watchConfig(path, { ...reading, since: loaded.fingerprint, onChange: applyConfig, onRejected: rejectConfig })
      : () => {};
  // What others learn of servers, and what a person accepts elsewhere, is seen here, too.
  const refreshing = watch ? setInterval(() => void refresh(), REFRESH_MS).unref() : undefined;

  return {
    quartermaster,
    get config() {
      return loaded.config;
    },
    configPath: path,
    storePath,
    get servers() {
      if (connected.servers !== undefined) return connected.servers;
      throw new QmError("conflict", "the workspace was opened for its ledger alone");
    },
    secrets: connected.secrets,
    tracer,
    fill: createReferenceFiller(env, storePath),
    async close() {
      stopWatching();
      clearInterval(refreshing);
      // What the servers do last is written down, too.
      await connected.servers?.close();
      await quartermaster.close();
      await connected.close();
    },
  };

  async function startQuartermaster(): Promise<Quartermaster> {
    return createQuartermaster({
      providers: [
        ...(file === undefined ? [] : [file]),
        ...(connected.servers === undefined ? [] : [connected.servers.provider]),
      ],
      policy,
      store: purpose === "looking" || (purpose === "ledger" && !existsSync(storePath)) ? ":memory:" : storePath,
      limits: { timeoutMs: limits.timeout_ms, concurrency: limits.concurrency, queue: limits.queue },
      valueLimit: limits.value_chars,
      surface: toSurfaceChoice(loaded.config.surface),
      approvals: { worker: watch && purpose === "calls" },
      routing: toRouteRules(loaded.config),
      tracer,
      search:
        purpose === "ledger"
          ? { enabled: false }
          : toSearchSettings(loaded, filling, { path: findVectorsPath(), background: purpose === "calls" }),
      infospace: purpose === "ledger" ? { enabled: false } : toInfospaceSettings(loaded.config),
      redact: { names: ledger.redact, secrets: () => listSecrets(loaded.config) },
      onProblem,
    });
  }

  /** Puts a new configuration into force, all of it or nothing. */
  async function applyConfig(next: LoadedConfig): Promise<void> {
    const looser = findLooserSettings(loaded.config, next.config);
    const findOpened = quartermaster.watchDecisions();
    const nextFile = hasSameFileProvider(loaded, next) ? file : createFileProvider(next, env, listProtectedPaths(next));
    // No call can come between the two: nothing is waited for until the policy stands.
    const replaced = replaceProvider(file, nextFile);
    try {
      quartermaster.router.useRules(toRouteRules(next.config));
      quartermaster.usePolicy(toPolicyOptions(next.config));
    } catch (thrown) {
      quartermaster.router.useRules(toRouteRules(loaded.config));
      await Promise.allSettled([replaced, replaceProvider(nextFile, file)]);
      throw thrown;
    }
    const later = restartSections.filter(
      (part) => canonicalJson(loaded.config[part]) !== canonicalJson(next.config[part]),
    );
    loaded = next;
    file = nextFile;
    if (later.length > 0) onProblem(`${next.path}: the change of ${later.join(", ")} needs a restart`);
    try {
      await replaced;
      await connected.servers?.configure(toServerSpecs(next.config, next.folder));
    } finally {
      reportLoosened([...looser, ...(await findOpened())]);
    }
  }

  function reportLoosened(loosened: readonly string[]): void {
    recordLoaded(loosened);
    for (const each of loosened) onProblem(`${loaded.path} is less strict: ${each}`);
  }

  async function replaceProvider(from: Provider | undefined, to: Provider | undefined): Promise<void> {
    if (from === to) return;
    if (to === undefined) await quartermaster.catalog.withdraw("file");
    else quartermaster.catalog.provide(to);
  }

  function hasSameFileProvider(from: LoadedConfig, to: LoadedConfig): boolean {
    const [before, after] = [from, to].map((each) =>
      canonicalJson([each.config.providers.file, listProtectedPaths(each)]),
    );
    return before === after;
  }

  /**
   * The policy and the ledger, because whoever can write them is bound by neither, and what is kept beside the ledger,
   * in whatever folder that is. The store in use stays protected when the file names another one for the next start.
   */
  function listProtectedPaths(from: LoadedConfig): readonly string[] {
    const stores = [storePath, resolveStorePath(from, env)];
    const files = [...stores, resolveIndexPath(loaded, env), resolveIndexPath(from, env)].filter(
      (each) => each !== undefined,
    );
    return [
      ...new Set([
        ...listConfigPaths(resolve(cwd)),
        ...(from.path === undefined ? [] : [from.path, `${from.path}.lock`]),
        ...files.flatMap(listStoreFiles),
        ...stores.flatMap(listStatePaths),
      ]),
    ];
  }

  /** Whoever only looks has a store in memory; vectors are where calls left them, and are made nowhere. */
  function findVectorsPath(): string | undefined {
    const path = resolveIndexPath(loaded, env);
    if (purpose !== "looking") return path;
    const left = path ?? storePath;
    return existsSync(left) ? left : undefined;
  }

  async function refresh(): Promise<void> {
    // A store that cannot be read is told of by whoever needs it.
    await connected.servers?.manifests.refresh().catch(() => undefined);
  }

  function rejectConfig(error: QmError): void {
    quartermaster.recordConfig(path ?? "", error.message);
    onProblem(`the change was not taken: ${error.message}`);
  }

  function recordLoaded(loosened?: readonly string[]): void {
    quartermaster.recordConfig(loaded.path ?? "defaults", undefined, loosened);
  }
}

const REFRESH_MS = 2_000;

const MISTAKEN_FILES = ["quartermaster.yml", "quartermaster.json", ".quartermaster.yaml"];

/** What is read once, when the quartermaster is made. */
const restartSections = [
  "store",
  "limits",
  "ledger",
  "infospace",
  "surface",
  "search",
  "mcp",
  "gateway",
  "telemetry",
] as const satisfies readonly (keyof Config)[];

/** Who is told what is done. Loaded only where somebody wants to know. */
async function openTracer({ telemetry }: Config): Promise<Tracer> {
  if (!telemetry.enabled) return silentTracer;
  const { openTelemetryTracer } = await import("../telemetry/opentelemetry.ts");
  return openTelemetryTracer({ content: telemetry.content, version: readPackageInfo().version });
}

/** Where a configuration keeps its ledger. */
export function resolveStorePath({ config, folder }: LoadedConfig, env: Environment): string {
  return resolve(folder, resolveReference(config.store.path, env, "store.path"));
}

/** The folder that the file actions are confined to. */
export function resolveFileRoot({ config, folder }: LoadedConfig, env: Environment): string {
  return resolve(folder, resolveReference(config.providers.file.root, env, "providers.file.root"));
}

function createFileProvider(loaded: LoadedConfig, env: Environment, protect: readonly string[]): Provider | undefined {
  const { enabled, read_only } = loaded.config.providers.file;
  if (!enabled) return undefined;
  // In whatever folder: it would bind whoever starts there.
  const protectNames = [
    CONFIG_FILE,
    ...listLeftoverPatterns(CONFIG_FILE),
    ...listLeftoverPatterns(basename(loaded.path ?? CONFIG_FILE)),
  ];
  return fileProvider({ root: resolveFileRoot(loaded, env), readOnly: read_only, protect, protectNames });
}

/** Copies of a configuration as it was, and what a crash leaves of one, or of the secrets, that was being written. */
function listLeftoverPatterns(name: string): readonly string[] {
  return [`${name}.bak-*`, `.${name}.*`, `.${basename(getSecretsPath(""))}.*`];
}

/** Everywhere a configuration is looked for: one made nearer than the one in force would be in force next time. */
function listConfigPaths(folder: string): readonly string[] {
  const above = dirname(folder);
  return [join(folder, CONFIG_FILE), ...(above === folder ? [] : listConfigPaths(above))];
}

/** The store's own folder, if it has one, and its files: SQLite keeps some beside the one it is given, links followed. */
function listStoreFiles(path: string): readonly string[] {
  const files = [path, resolveRealPath(path)].flatMap((file) =>
    ["", "-wal", "-shm", "-journal"].map((end) => file + end),
  );
  return basename(dirname(path)) === STATE_FOLDER ? [dirname(path), ...files] : files;
}

function resolveRealPath(path: string): string {
  try {
    return realpathSync.native(path);
  } catch {
    return path;
  }
}
