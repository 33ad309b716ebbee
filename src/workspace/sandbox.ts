import { existsSync } from "node:fs";
import { realpath, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { readPackageInfo, systemProcess } from "../app/system-runtime.ts";
import type { Provider } from "../catalog/define-action.ts";
import type { LoadedConfig } from "../config/parse.ts";
import type { SandboxConfig } from "../config/sandbox-schema.ts";
import { getErrorMessage } from "../core/errors.ts";
import { type Sandbox, type SandboxSettings, UNTESTED_SANDBOX } from "../core/sandbox.ts";
import { createPrivateFolder } from "../files/safe-files.ts";
import type { Gate } from "../policy/tool-policy.ts";
import { getSandboxTestsFolder } from "./state-paths.ts";

type Fill = (text: string, key: string) => string;

interface SandboxPlace {
  /** Passed self-tests are remembered here, or beside the store if this cannot be written. */
  readonly packageFolder: string;
  readonly storePath: string;
  readonly searchPath: string;
  /** Files and folders that no program can reach. Read for each program. */
  readonly protect: () => readonly string[];
  /** Whether files may be created beside the store. */
  readonly mayWrite: boolean;
}

/** The sandbox of a workspace. Its code is loaded when it is first needed. */
export function createWorkspaceSandbox(place: SandboxPlace): Sandbox {
  const { packageFolder, storePath, searchPath, protect, mayWrite } = place;
  // No program in the sandbox can write to either.
  const shared = join(packageFolder, "node_modules/.cache/sandbox-tests");
  const own = getSandboxTestsFolder(storePath);
  const mark = async (folder: string, key: string) => {
    createPrivateFolder(folder);
    await writeFile(join(folder, key), "", { mode: 0o600 });
  };
  const passed = {
    has: async (key: string) => [shared, own].some((folder) => existsSync(join(folder, key))),
    add: (key: string) => mark(shared, key).catch(() => (mayWrite ? mark(own, key) : undefined)),
    async remove(key: string) {
      for (const folder of [shared, own]) await rm(join(folder, key), { force: true });
    },
  };
  const host = {
    nodePath: systemProcess.nodePath,
    searchPath,
    platform: process.platform,
    pid: systemProcess.pid,
    uid: systemProcess.uid,
  };
  let loading: Promise<Sandbox> | undefined;
  let loaded: Sandbox | undefined;
  const load = () => (loading ??= import("../sandbox/bubblewrap-sandbox.ts").then(create));
  function create({ createBubblewrapSandbox }: typeof import("../sandbox/bubblewrap-sandbox.ts")): Sandbox {
    loaded = createBubblewrapSandbox({ host, version: readPackageInfo().version, passed, protect });
    return loaded;
  }
  return {
    findProblem: async () => (await load()).findProblem(),
    findKnownProblem: async () => (await load()).findKnownProblem(),
    getProblem: () => (loaded === undefined ? UNTESTED_SANDBOX : loaded.getProblem()),
    prepare: async (request) => (await load()).prepare(request),
    chooseUser: async (folder) => (await load()).chooseUser(folder),
  };
}

/** Hides `exec` until the sandbox has passed its self-test. It has no setting that opens it. */
export const createExecGate = (sandbox: Sandbox): Gate => ({
  name: "sandbox",
  guards: "exec__*",
  shut: sandbox.getProblem,
});

export const needsExecGate = ({ providers: { exec } }: LoadedConfig["config"]): boolean =>
  exec.enabled && !exec.unisolated;

/** The settings with absolute paths and without references. */
export function toSandboxSettings(
  { read, write, ...rest }: SandboxConfig,
  folder: string,
  fill: (text: string, at: string) => string,
): SandboxSettings {
  const locate = (paths: readonly string[], key: string) =>
    paths.map((path, at) => resolve(folder, fill(path, `${key}[${at}]`)));
  return { ...rest, read: locate(read, "read"), write: locate(write, "write") };
}

/** The settings of `exec`. Programs run as the owner of the first writable folder, if this process is root. */
function toExecSettings({ config, folder }: LoadedConfig, fill: Fill): SandboxSettings {
  const { folder: work, sandbox } = config.providers.exec;
  const key = "providers.exec";
  const settings = toSandboxSettings(sandbox, folder, (text, at) => fill(text, `${key}.sandbox.${at}`));
  return { ...settings, write: [resolve(folder, fill(work, `${key}.folder`)), ...settings.write] };
}

export function createExecProvider(loaded: LoadedConfig, fill: Fill, sandbox: Sandbox): Provider | undefined {
  const { enabled, unisolated, env, outputBytes, timeoutMs, maxTimeoutMs, allowEnv } = loaded.config.providers.exec;
  if (!enabled) return undefined;
  const key = "providers.exec";
  const settings = toExecSettings(loaded, fill);
  const [folder = ""] = settings.write;
  const options = {
    ...{ settings, folder, outputBytes, maxTimeoutMs, allowEnv },
    timeoutMs: Math.min(timeoutMs, maxTimeoutMs),
    isolated: !unisolated,
    kill: systemProcess.kill,
    readEnv: () =>
      Object.fromEntries(Object.entries(env).map(([name, text]) => [name, fill(text, `${key}.env.${name}`)])),
  };
  return {
    category: "exec",
    capability: unisolated ? "Run programs on this machine." : "Run programs in a sandbox.",
    async list() {
      // The gate is shut until then, so no view is made that would hide the action afterwards.
      if (!unisolated) await sandbox.findKnownProblem();
      const { createExecAction } = await import("../providers/exec/exec-provider.ts");
      const chosen = unisolated ? (await import("../sandbox/unisolated.ts")).unisolatedSandbox : sandbox;
      return [createExecAction({ ...options, sandbox: chosen })];
    },
  };
}

/** Tests the sandbox for real, and each reach that the configuration gives. Undefined: no program uses a sandbox. */
export async function findSandboxProblems(
  loaded: LoadedConfig,
  fill: Fill,
  sandbox: Sandbox,
): Promise<readonly string[] | undefined> {
  const { config, folder } = loaded;
  const toReach = (key: string, reach: SandboxConfig | undefined) =>
    reach && ([key, () => toSandboxSettings(reach, folder, (text, at) => fill(text, `${key}.${at}`))] as const);
  const used = [
    needsExecGate(config) ? (["providers.exec", () => toExecSettings(loaded, fill)] as const) : undefined,
    toReach("skills.sandbox", config.skills.sandbox),
    ...Object.entries(config.servers).map(([name, server]) =>
      server.enabled ? toReach(`servers.${name}.sandbox`, server.sandbox) : undefined,
    ),
  ].filter((each) => each !== undefined);
  if (used.length === 0) return undefined;
  const problem = await sandbox.findProblem();
  if (problem !== undefined) return [problem];
  const found = await Promise.all(
    used.map(async ([key, read]) => ({ key, problem: await findReachProblem(sandbox, read) })),
  );
  return found.flatMap((each) => (each.problem === undefined ? [] : [`${each.key}: ${each.problem}`]));
}

/** Prints the first folder that a program cannot change. */
const FIND_UNWRITABLE = 'for each; do [ -w "$each" ] || { printf %s "$each"; exit 1; }; done';

/** Finds what would keep programs with this reach from starting. A missing writable folder may be created later. */
async function findReachProblem(sandbox: Sandbox, readSettings: () => SandboxSettings): Promise<string | undefined> {
  try {
    const settings = readSettings();
    const existing = settings.write.filter((path) => existsSync(path));
    const folders = await Promise.all(existing.map((path) => realpath(path)));
    const command = ["sh", "-c", FIND_UNWRITABLE, "sh", ...folders];
    const request = { settings: { ...settings, write: existing }, command, cwd: folders[0] ?? "/", env: {} };
    const { runUntilEnd } = await import("../providers/exec/run-program.ts");
    const limits = { stdin: "", timeoutMs: 10_000, outputBytes: 8_192 };
    const ports = { sandbox, kill: systemProcess.kill };
    const { code, stdout } = await runUntilEnd({ ...request, ...limits }, ports, new AbortController().signal);
    if (code === 0) return undefined;
    const folder = stdout.text || folders.join(", ");
    const user = await sandbox.chooseUser(existing[0]);
    const step =
      user === undefined ? "" : `: they run as user ${user.uid}; \`chown ${user.uid} ${folder}\` gives it to them`;
    return `programs cannot change ${folder}${step}`;
  } catch (thrown) {
    return getErrorMessage(thrown);
  }
}
