import { existsSync } from "node:fs";
import { join } from "node:path";
import { createQuartermaster, type Quartermaster } from "../app/quartermaster.ts";
import { findPackageFolder, readPackageInfo, systemRuntime } from "../app/system-runtime.ts";
import { CONFIG_FILE, loadConfig, watchConfig } from "../config/config-file.ts";
import { findLooserSettings } from "../config/looser-settings.ts";
import type { LoadedConfig } from "../config/parse.ts";
import type { Environment } from "../config/references.ts";
import type { Config } from "../config/schema.ts";
import { QmError } from "../core/errors.ts";
import { CALL_VARIABLES, compileCondition } from "../core/expression.ts";
import { canonicalJson, getOwn, omitUndefined } from "../core/json.ts";
import type { KnownSecret } from "../core/known-secret.ts";
import type { Model } from "../core/model.ts";
import type { SandboxChoice } from "../core/sandbox.ts";
import { silentTracer, type Tracer } from "../core/tracing.ts";
import type { McpServers, McpServersEvent } from "../mcp/provider/mcp-servers.ts";
import type { SecretStore } from "../mcp/secret-store.ts";
import type { PolicyOptions } from "../policy/policy.ts";
import type { SkillRoot } from "../providers/skill/skill-folders.ts";
import { type BuiltInProviders, createProviders } from "./built-in-providers.ts";
import {
  createModels,
  resolveIndexPath,
  toPeerOptions,
  toPolicyOptions,
  toSearchSettings,
  toServerSpecs,
} from "./config-mapping.ts";
import {
  createExecGate,
  createWorkspaceSandbox,
  findSandboxProblems,
  needsExecGate,
  toSandboxSettings,
} from "./sandbox.ts";
import {
  createReferenceFiller,
  createSecretLister,
  listReferencedSecrets,
  mergeStoredSecrets,
  openSecretsFile,
} from "./secrets.ts";
import { getSecretsPath, resolveStorePath } from "./state-paths.ts";
import { explainActorProblems, findUnknownSeeds, listUnaskedServers, mayFitUnlisted } from "./unlisted-actions.ts";
import { listProtectedPaths, listSkillRoots, resolveArchivePath } from "./workspace-paths.ts";

/**
 * - `calls`: everything, recorded in the configured store
 * - `looking`: the actions and the policy; events stay in memory, and no file is created
 * - `ledger`: only the configured store, without providers; nothing is recorded, and a missing store is empty
 */
export type WorkspacePurpose = "calls" | "looking" | "ledger";

export interface WorkspaceOptions {
  /** `quartermaster.yaml` is searched in this folder and the folders above it. */
  readonly cwd: string;
  /** The variables for `${env:NAME}`. */
  readonly env: Environment;
  /** The configuration file, relative to `cwd`. Absent: it is searched. */
  readonly configPath?: string | undefined;
  /** Called with problems that do not stop the work: faults of providers, a rejected change of the file. */
  readonly onProblem?: (problem: string) => void;
  /** Whether changes of the file are applied while the workspace is open. */
  readonly watch?: boolean;
  /** Default: `calls`. */
  readonly purpose?: WorkspacePurpose;
}

/** A quartermaster as `quartermaster.yaml` describes it. */
export interface Workspace {
  readonly quartermaster: Quartermaster;
  readonly config: Config;
  /** `undefined`: there is no file, and every option has its default. */
  readonly configPath: string | undefined;
  /** The file of the ledger. It may not exist yet. */
  readonly storePath: string;
  /** The MCP servers. Throws `conflict` if the workspace was opened for its ledger. */
  readonly servers: McpServers;
  /** The secrets for `${secret:NAME}`. */
  readonly secrets: SecretStore;
  readonly skillRoots: readonly SkillRoot[];
  /** The configured language models, by name. */
  readonly models: Readonly<Record<string, Model>>;
  /** Fills the references in a configured text. Throws `invalid_config`. */
  readonly fill: (text: string, key: string) => string;
  /** The values that are shown nowhere. */
  readonly listSecrets: () => Iterable<KnownSecret>;
  readonly tracer: Tracer;
  /** Tests the sandbox for real. Undefined: no program uses one. */
  readonly findSandboxProblems: () => Promise<readonly string[] | undefined>;
  close(): Promise<void>;
}

/** Throws `invalid_config` with every problem of the file, and `store_failed` if the store cannot be used. */
export async function openWorkspace(options: WorkspaceOptions): Promise<Workspace> {
  const { cwd, env, configPath, onProblem = () => {}, watch = false, purpose = "calls" } = options;
  const reading = { env, compileExpression: (text: string) => compileCondition(text, CALL_VARIABLES) };
  let loaded = await loadConfig(configPath, { cwd, ...reading });
  const storePath = resolveStorePath(loaded, env);
  const secrets = openSecretsFile(getSecretsPath(storePath), systemRuntime);
  const listSecrets = createSecretLister(env, getSecretsPath(storePath), onProblem);
  // A broken file of secrets does no harm if the configuration refers to none.
  const filling = listReferencedSecrets(loaded).length === 0 ? env : mergeStoredSecrets(env, storePath);
  const fill = createReferenceFiller(env, storePath);
  const place = { cwd: configPath === undefined ? cwd : undefined, env: filling, storePath };
  const packageFolder = findPackageFolder();
  const sandbox = createWorkspaceSandbox({
    packageFolder,
    storePath,
    searchPath: env.PATH ?? "",
    // A program that changes our own code would not be isolated next time.
    protect: () => [...listProtectedPaths([loaded], place), packageFolder],
    mayWrite: purpose === "calls",
  });
  // Begins here, because it takes long. The provider of `exec` waits for it, and reports an error.
  if (purpose !== "ledger" && needsExecGate(loaded.config)) sandbox.findKnownProblem().catch(() => {});
  let builtIn: BuiltInProviders = purpose === "ledger" ? new Map() : createBuiltInProviders(loaded);
  const models = createModels(loaded.config, fill);
  const policy = createPolicyOptions(loaded);
  const tracer = purpose === "calls" ? await openTracer(loaded.config) : silentTracer;

  // The servers are opened before the quartermaster that records their events.
  let note = (_event: McpServersEvent): void => {};
  const opened = purpose === "ledger" ? undefined : await openServers(purpose === "looking");
  const servers = opened?.servers;
  const quartermaster = await startQuartermaster().catch(async (thrown: unknown) => {
    await opened?.close();
    throw thrown;
  });
  note = quartermaster.note;
  if (purpose !== "ledger") {
    const { config } = loaded;
    const unasked = listUnaskedServers(servers?.list() ?? [], config);
    const mayFit = (pattern: string) => mayFitUnlisted(pattern, unasked, config);
    const listNames = () => quartermaster.inventory().map(({ name }) => name);
    const warnings = [...quartermaster.policyWarnings(mayFit), ...findUnknownSeeds(config, listNames, mayFit)];
    const problems = explainActorProblems(quartermaster.actorProblems(), unasked, config);
    const unused = findUnusedModels(config);
    for (const problem of [...problems, ...warnings, ...unused]) onProblem(problem);
    recordLoaded();
  }
  const { path } = loaded;
  if (path !== undefined && loaded.isEmpty) onProblem(`${path} has no content: the defaults allow every action`);
  const ignored = path === undefined ? MISTAKEN_FILES.find((name) => existsSync(join(cwd, name))) : undefined;
  if (ignored !== undefined) onProblem(`${ignored} is not read: rename it to ${CONFIG_FILE}`);
  const stopWatching =
    watch && path !== undefined
      ? watchConfig(path, { ...reading, since: loaded.fingerprint, onChange: applyConfig, onRejected: rejectConfig })
      : () => {};
  // Shows what other processes learn of servers, and which changed tools a person accepts there.
  // A call that needs the store reports why it cannot be read.
  const refresh = () => void servers?.manifests.refresh().catch(() => undefined);
  const refreshing = watch ? setInterval(refresh, REFRESH_MS).unref() : undefined;
  return {
    quartermaster,
    get config() {
      return loaded.config;
    },
    configPath: path,
    storePath,
    get servers() {
      if (servers !== undefined) return servers;
      throw new QmError("conflict", "the workspace was opened for its ledger alone");
    },
    get skillRoots() {
      return listSkillRoots(loaded, filling);
    },
    models,
    secrets,
    findSandboxProblems: () => findSandboxProblems(loaded, fill, sandbox),
    tracer,
    fill,
    listSecrets: () => listSecrets(loaded.config),
    async close() {
      stopWatching();
      clearInterval(refreshing);
      // First the servers, so that their last events are recorded.
      await servers?.close();
      await quartermaster.close();
      await opened?.close();
      // The command exits next, and would lose spans that the SDK still collects.
      await tracer.flush?.();
    },
  };

  async function openServers(isReadOnly: boolean) {
    const { openWorkspaceServers } = await import("./servers.ts");
    const place = { loaded, cwd, env, storePath, secrets, tracer, sandbox, runtime: systemRuntime };
    return openWorkspaceServers({ ...place, isReadOnly, note: (event) => note(event), onProblem });
  }

  async function startQuartermaster(): Promise<Quartermaster> {
    const { config } = loaded;
    const { valueChars, ...limits } = config.limits;
    const common = {
      policy,
      models,
      limits,
      valueLimit: valueChars,
      surface: config.surface,
      routing: config.routing.rules,
      ledger: omitUndefined({ keep: config.ledger.keep, archive: resolveArchivePath(loaded, env) }),
      tracer,
      redact: { names: config.ledger.redact, secrets: () => listSecrets(loaded.config) },
      onProblem,
    };
    if (purpose === "ledger") {
      const store = existsSync(storePath) ? storePath : ":memory:";
      return createQuartermaster({ ...common, store, search: { enabled: false }, approvals: { worker: false } });
    }
    const vectors = { path: findVectorsPath(), background: purpose === "calls" };
    return createQuartermaster({
      ...common,
      providers: [
        ...[...builtIn.values()].map(({ provider }) => provider),
        ...(servers === undefined ? [] : [servers.provider]),
      ],
      // For looking, the trust of earlier calls is read where they have left it.
      skills: omitUndefined({
        roots: listSkillRoots(loaded, filling),
        pins: purpose === "looking" ? opened?.skillPins : undefined,
        sandbox: chooseSkillSandbox(),
      }),
      peers: toPeerOptions(config, fill),
      store: purpose === "looking" ? ":memory:" : storePath,
      approvals: { worker: watch && purpose === "calls" },
      search: toSearchSettings(loaded, filling, vectors),
      infospace: config.infospace,
      memory: config.providers.memory,
      rag: config.providers.rag,
    });
  }

  function chooseSkillSandbox(): SandboxChoice | undefined {
    const { sandbox: reach } = loaded.config.skills;
    const fillPath = (text: string, at: string) => fill(text, `skills.sandbox.${at}`);
    return reach && { sandbox, settings: toSandboxSettings(reach, loaded.folder, fillPath) };
  }

  /** The policy of a configuration, with the gate that hides `exec` while there is no sandbox. */
  function createPolicyOptions({ config }: LoadedConfig): PolicyOptions {
    const options = toPolicyOptions(config);
    if (!needsExecGate(config)) return options;
    return { ...options, gates: [...(options.gates ?? []), createExecGate(sandbox)] };
  }

  async function applyConfig(next: LoadedConfig): Promise<void> {
    if (needsExecGate(next.config)) await sandbox.findKnownProblem();
    const looser = findLooserSettings(loaded.config, next.config);
    const findOpened = quartermaster.watchDecisions();
    const nextBuiltIn = createBuiltInProviders(next, builtIn);
    // There is no await until the policy is in force, so that no call comes between the two changes.
    const replaced = replaceProviders(builtIn, nextBuiltIn);
    try {
      quartermaster.router.useRules(next.config.routing.rules);
      quartermaster.usePolicy(createPolicyOptions(next));
    } catch (thrown) {
      quartermaster.router.useRules(loaded.config.routing.rules);
      await Promise.allSettled([replaced, replaceProviders(nextBuiltIn, builtIn)]);
      throw thrown;
    }
    const current = loaded.config;
    const later = [
      ...restartSections.filter((each) => canonicalJson(current[each]) !== canonicalJson(next.config[each])),
      ...(current.providers.memory.enabled === next.config.providers.memory.enabled ? [] : ["providers.memory"]),
      ...(current.providers.rag.enabled === next.config.providers.rag.enabled ? [] : ["providers.rag"]),
      ...listChangedWorldSkills(current.worlds, next.config.worlds),
    ];
    loaded = next;
    builtIn = nextBuiltIn;
    if (later.length > 0) onProblem(`${next.path}: the change of ${later.join(", ")} needs a restart`);
    try {
      await replaced;
      await servers?.configure(toServerSpecs(next.config, next.folder));
    } finally {
      const loosened = [...looser, ...(await findOpened())];
      recordLoaded(loosened);
      for (const each of loosened) onProblem(`${loaded.path} is less strict: ${each}`);
    }
  }

  async function replaceProviders(from: BuiltInProviders, to: BuiltInProviders): Promise<void> {
    const withdrawn = [...from.keys()].filter((category) => !to.has(category));
    for (const [category, next] of to) {
      if (from.get(category) !== next) quartermaster.catalog.provide(next.provider);
    }
    await Promise.all(withdrawn.map((category) => quartermaster.catalog.withdraw(category)));
  }

  function createBuiltInProviders(from: LoadedConfig, before?: BuiltInProviders): BuiltInProviders {
    const protect = listProtectedPaths([loaded, from], place);
    return createProviders({ loaded: from, env, storePath, fill, onProblem, sandbox, protect }, before);
  }

  /** For looking, the vectors are read where calls have left them, and none are made. */
  function findVectorsPath(): string | undefined {
    const path = resolveIndexPath(loaded, env);
    if (purpose !== "looking") return path;
    const existing = path ?? storePath;
    return existsSync(existing) ? existing : undefined;
  }

  function rejectConfig(error: QmError): void {
    quartermaster.recordConfig(path ?? "", error.message);
    onProblem(`the change was rejected: ${error.message}`);
  }

  function recordLoaded(loosened?: readonly string[]): void {
    quartermaster.recordConfig(loaded.path ?? "defaults", undefined, loosened);
  }
}

const REFRESH_MS = 2_000;
const MISTAKEN_FILES = ["quartermaster.yml", "quartermaster.json", ".quartermaster.yaml"];

/** The sections that are read only at the start. */
const restartSections: readonly (keyof Config)[] = [
  "store",
  "limits",
  "ledger",
  "infospace",
  "surface",
  "search",
  "skills",
  "models",
  "mcp",
  "peers",
  "gateway",
  "a2a",
  "telemetry",
];

/** Skills, and actors that name none, ask `default`. So without it, they have no model. */
export function findUnusedModels({ models, actors }: Pick<Config, "models" | "actors">): readonly string[] {
  if (Object.hasOwn(models, "default")) return [];
  const named = new Set(Object.values(actors).map(({ model }) => model));
  return Object.keys(models)
    .filter((name) => !named.has(name))
    .map(
      (name) =>
        `models.${name} is not used: rename it to models.default, which skills and actors ask, or set actors.<name>.model: ${name}`,
    );
}

const listChangedWorldSkills = (before: Config["worlds"], after: Config["worlds"]): readonly string[] =>
  [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .filter((name) => {
      const [old, next] = [getOwn(before, name), getOwn(after, name)].map((world) => world?.skills ?? []);
      return canonicalJson(old) !== canonicalJson(next);
    })
    .map((name) => `worlds.${name}.skills`);

async function openTracer({ telemetry }: Config): Promise<Tracer> {
  if (!telemetry.enabled) return silentTracer;
  const { openTelemetryTracer } = await import("../telemetry/opentelemetry.ts");
  return openTelemetryTracer({ content: telemetry.content, version: readPackageInfo().version });
}
