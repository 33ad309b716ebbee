import { type ChildProcessByStdio, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { win32 } from "node:path";
import type { Readable, Writable } from "node:stream";
import { QmError } from "../../core/errors.ts";
import { type Sandbox, type SandboxSettings, sendInputs } from "../../core/sandbox.ts";
import type { ValueRedactor } from "./redact-values.ts";

export interface ResolvedLaunch {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string | undefined;
  readonly sandbox?: SandboxSettings | undefined;
}

export type EnvironmentVariables = Readonly<Record<string, string | undefined>>;
export type ServerProcess = ChildProcessByStdio<Writable, Readable, Readable>;

/** Like `startProcess`, in the sandbox of the launch. Rejects if the server cannot be isolated, so that it does not start. */
export async function startIsolated(
  { command, args, env, cwd = "/", sandbox: settings }: ResolvedLaunch,
  ours: EnvironmentVariables,
  sandbox: Sandbox | undefined,
): Promise<ServerProcess> {
  if (settings === undefined || sandbox === undefined) throw new TypeError("there is no sandbox for it");
  const variables = { ...(ours.PATH === undefined ? {} : { PATH: ours.PATH }), ...env };
  const streams = ["pipe", "pipe", "pipe"] as const;
  const isolated = await sandbox.prepare({ settings, command: [command, ...args], cwd, env: variables, streams });
  const child = spawn(isolated.file, isolated.args, isolated.options);
  if (child.pid !== undefined) sendInputs(child.stdio, isolated);
  return child as unknown as ServerProcess;
}

/** Starts a program without a shell, as the leader of its own process group. It throws, or the child emits `error`. */
export function startProcess(launch: ResolvedLaunch, ours: EnvironmentVariables, platform: NodeJS.Platform) {
  const env = buildServerEnvironment(ours, launch.env, platform);
  const { file, args, verbatim } =
    platform === "win32"
      ? toWindowsCommand(launch.command, launch.args, env, existsSync)
      : { file: launch.command, args: launch.args, verbatim: false };
  return spawn(file, args, {
    cwd: launch.cwd,
    env,
    stdio: ["pipe", "pipe", "pipe"],
    shell: false,
    detached: platform !== "win32",
    windowsHide: true,
    windowsVerbatimArguments: verbatim,
  });
}

const POSIX = "HOME LANG LC_ALL LC_CTYPE LOGNAME PATH SHELL TERM TMPDIR TZ USER";
const WINDOWS =
  "APPDATA COMSPEC HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT PROCESSOR_ARCHITECTURE PROGRAMDATA PROGRAMFILES PROGRAMFILES(X86) PROGRAMW6432 SYSTEMDRIVE SYSTEMROOT TEMP TMP USERNAME USERPROFILE WINDIR";
/** Without these, nothing can be installed behind a company's proxy. */
const NETWORK = "HTTP_PROXY HTTPS_PROXY NO_PROXY NODE_EXTRA_CA_CERTS SSL_CERT_DIR SSL_CERT_FILE";

/** The variables every program needs, and the configured ones. Our other variables may be secret. */
export function buildServerEnvironment(
  ours: EnvironmentVariables,
  configured: Readonly<Record<string, string>>,
  platform: NodeJS.Platform,
): Record<string, string> {
  const names = new Set(`${platform === "win32" ? WINDOWS : POSIX} ${NETWORK}`.split(" "));
  const inherited = Object.entries(ours).filter(
    (entry): entry is [string, string] => names.has(entry[0].toUpperCase()) && isHarmless(...entry),
  );
  return { ...Object.fromEntries(inherited), ...configured };
}

/** Not a shell function, which a shell would run, nor a proxy address with a password. */
function isHarmless(name: string, value: string | undefined): boolean {
  if (value === undefined || value.startsWith("()")) return false;
  return !(/_PROXY$/i.test(name) && value.includes("@"));
}

/** `npx` and the like are `.cmd` files, which only `cmd.exe` runs. Not tested there. `verbatim`: already quoted. */
export function toWindowsCommand(
  command: string,
  args: readonly string[],
  variables: EnvironmentVariables,
  exists: (path: string) => boolean,
) {
  // Names of variables are case-insensitive on Windows.
  const read = (name: string) => Object.entries(variables).find(([key]) => key.toUpperCase() === name)?.[1];
  const endings = (read("PATHEXT") ?? ".COM;.EXE;.BAT;.CMD").split(";").filter(Boolean);
  const folders = /[\\/]/.test(command) ? [""] : (read("PATH") ?? "").split(";").filter(Boolean);
  const names = win32.extname(command) === "" ? endings.map((ending) => command + ending) : [command];
  const found = folders.flatMap((folder) => names.map((name) => win32.join(folder, name))).find(exists) ?? command;
  if (!/\.(?:cmd|bat)$/i.test(found)) return { file: found, args, verbatim: false };
  // Arguments are read twice: by this `cmd.exe`, and when the file passes them on.
  const line = [escapeForCmd(found), ...args.map((arg) => escapeForCmd(escapeForCmd(quoteArgument(arg))))].join(" ");
  return { file: read("COMSPEC") ?? "cmd.exe", args: ["/d", "/s", "/c", `"${line}"`], verbatim: true };
}

/** Programs on Windows treat a backslash as an escape only before a quote. */
const quoteArgument = (arg: string): string => `"${arg.replace(/(\\*)"/g, '$1$1\\"').replace(/(\\*)$/, "$1$1")}"`;
const escapeForCmd = (text: string): string => text.replace(/[()[\]%!^"`<>&|;, *?]/g, "^$&");

/** Explains why a server did not start. The system's own error is not shown: it quotes arguments and variables. */
export function toStartError(server: string, launch: ResolvedLaunch, thrown: unknown, hide: ValueRedactor): QmError {
  if (thrown instanceof QmError)
    return new QmError("server_failed", `server ${server} could not be started: ${hide(thrown.message)}`, {
      hint: thrown.hintTemplate ?? "Correct the `sandbox` of the server.",
    });
  const command = hide(launch.command);
  const code = (thrown as NodeJS.ErrnoException | undefined)?.code;
  const startError = (why: string, hint: string, errorCode: "server_failed" | "overloaded" = "server_failed") =>
    new QmError(errorCode, `server ${server} could not be started: ${why}`, { hint });
  if (launch.cwd !== undefined && !existsSync(launch.cwd))
    return startError(`its folder ${hide(launch.cwd)} does not exist`, "Create the folder, or correct `cwd`.");
  const install = `Install ${command}, put it on the PATH of this process, or write its full path as \`command\`.`;
  if (code === "ENOENT") return startError(`there is no program \`${command}\``, install);
  if (code === "EMFILE" || code === "ENFILE" || code === "EAGAIN")
    return startError("too many files or processes are open", "Try again in a moment.", "overloaded");
  if (code === "EACCES")
    return startError(`\`${command}\` may not be run`, "Make the file executable, or start it with its interpreter.");
  return startError(code ?? "the system refused it", "Check `command`, `args` and `env` of the server.");
}
