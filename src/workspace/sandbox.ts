import { chown, readFile, rm } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { readPackageInfo, systemProcess } from "../app/system-runtime.ts";
import type { Provider } from "../catalog/define-action.ts";
import type { LoadedConfig } from "../config/parse.ts";
import type { SandboxConfig } from "../config/sandbox-schema.ts";
import type { Sandbox, SandboxSettings } from "../core/sandbox.ts";
import { createPrivateFolder, replaceTextFile } from "../files/safe-files.ts";
import type { Gate } from "../policy/tool-policy.ts";
import { getSandboxTestPath } from "./state-paths.ts";

type Fill = (text: string, key: string) => string;

interface SandboxPlace {
  readonly storePath: string;
  readonly searchPath: string;
  /** Files and folders that no program can reach. Read for each program. */
  readonly protect: () => readonly string[];
  /** Whether a passed self-test is stored for other processes. */
  readonly mayWrite: boolean;
}

const UNTESTED = "the sandbox has not been tested yet";

/** The sandbox of a workspace. Its code is loaded when it is first needed. */
export function createWorkspaceSandbox({ storePath, searchPath, protect, mayWrite }: SandboxPlace): Sandbox {
  const path = getSandboxTestPath(storePath);
  const passed = {
    read: () => readFile(path, "utf8").catch(() => undefined),
    async write(key: string | undefined) {
      if (!mayWrite) return;
      if (key === undefined) return rm(path, { force: true });
      createPrivateFolder(dirname(path));
      await replaceTextFile(path, key, { mode: 0o600, unique: systemProcess.id });
    },
  };
  const host = {
    nodePath: systemProcess.nodePath,
    searchPath,
    platform: process.platform,
    pid: systemProcess.pid,
    uid: process.getuid?.(),
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
    getProblem: () => (loaded === undefined ? UNTESTED : loaded.getProblem()),
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

export function createExecProvider(
  { config, folder }: LoadedConfig,
  fill: Fill,
  sandbox: Sandbox,
): Provider | undefined {
  const { enabled, unisolated, folder: work, sandbox: reach, env, ...limits } = config.providers.exec;
  if (!enabled) return undefined;
  const key = "providers.exec";
  const place = resolve(folder, fill(work, `${key}.folder`));
  const settings = toSandboxSettings(reach, folder, (text, at) => fill(text, `${key}.sandbox.${at}`));
  const options = {
    ...limits,
    isolated: !unisolated,
    // The first decides about the user of programs.
    settings: { ...settings, write: [place, ...settings.write] },
    folder: place,
    kill: systemProcess.kill,
    readEnv: () =>
      Object.fromEntries(Object.entries(env).map(([name, text]) => [name, fill(text, `${key}.env.${name}`)])),
  };
  return {
    category: "exec",
    capability: unisolated ? "Run programs on this machine." : "Run programs in a sandbox.",
    async list() {
      const { execProvider } = await import("../providers/exec/exec-provider.ts");
      const chosen = unisolated ? (await import("../sandbox/unisolated.ts")).unisolatedSandbox : sandbox;
      const prepareFolder = (created: string) => giveToPrograms(created, chosen);
      return execProvider({ ...options, sandbox: chosen, prepareFolder }).list();
    },
  };
}

/** If this process is root, programs run as the owner of the folder around, so that their files belong to that user. */
async function giveToPrograms(folder: string, sandbox: Sandbox): Promise<void> {
  const user = await sandbox.chooseUser(dirname(folder));
  if (user !== undefined) await chown(folder, user.uid, user.gid);
}
