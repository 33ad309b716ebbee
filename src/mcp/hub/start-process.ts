import { type ChildProcessByStdio, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { win32 } from "node:path";
import type { Readable, Writable } from "node:stream";
import { QmError } from "../../core/errors.ts";
import type { ValueRedactor } from "./redact-values.ts";

const POSIX = ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];
const WINDOWS = [
  "APPDATA",
  "COMSPEC",
  "HOMEDRIVE",
  "HOMEPATH",
  "LOCALAPPDATA",
  "PATH",
  "PATHEXT",
  "PROCESSOR_ARCHITECTURE",
  "PROGRAMDATA",
  "PROGRAMFILES",
  "PROGRAMFILES(X86)",
  "PROGRAMW6432",
  "SYSTEMDRIVE",
  "SYSTEMROOT",
  "TEMP",
  "TMP",
  "USERNAME",
  "USERPROFILE",
  "WINDIR",
];
/** How the network is reached: without these nothing is installed behind a company's proxy. */
const NETWORK = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "NODE_EXTRA_CA_CERTS", "SSL_CERT_DIR", "SSL_CERT_FILE"];

export type EnvironmentVariables = Readonly<Record<string, string | undefined>>;

/**
 * The variables a server gets: a short list of ours that every program needs, and those that are configured for it.
 * Nothing else of ours is passed on: it may be a secret, or meant for us, as `OTEL_*` is.
 */
export function buildServerEnvironment(
  ours: EnvironmentVariables,
  given: Readonly<Record<string, string>>,
  platform: NodeJS.Platform,
): Record<string, string> {
  const wanted = new Set([...(platform === "win32" ? WINDOWS : POSIX), ...NETWORK]);
  const inherited = Object.entries(ours).filter(
    (entry): entry is [string, string] => wanted.has(entry[0].toUpperCase()) && isHarmless(...entry),
  );
  return { ...Object.fromEntries(inherited), ...given };
}

/** Neither a shell's function, which a shell would run, nor a proxy's address with a password in it. */
function isHarmless(name: string, value: string | undefined): boolean {
  if (value === undefined || value.startsWith("()")) return false;
  return !(/_PROXY$/i.test(name) && value.includes("@"));
}

/** A program and its arguments, as they are handed to the system. */
interface ProcessCommand {
  readonly file: string;
  readonly args: readonly string[];
  /** Windows: the arguments are quoted already. */
  readonly verbatim: boolean;
}

/**
 * What to start on Windows for a command: `npx` and its like are `.cmd` files there, which only `cmd.exe` runs. Not
 * tried on a real Windows.
 */
export function toWindowsCommand(
  command: string,
  args: readonly string[],
  variables: EnvironmentVariables,
  exists: (path: string) => boolean,
): ProcessCommand {
  const found = findProgram(command, variables, exists) ?? command;
  if (!/\.(?:cmd|bat)$/i.test(found)) return { file: found, args, verbatim: false };
  const line = [escapeForCmd(found), ...args.map((arg) => escapeForCmd(escapeForCmd(quoteArgument(arg))))].join(" ");
  return {
    file: readVariable(variables, "COMSPEC") ?? "cmd.exe",
    args: ["/d", "/s", "/c", `"${line}"`],
    verbatim: true,
  };
}

function findProgram(
  command: string,
  variables: EnvironmentVariables,
  exists: (path: string) => boolean,
): string | undefined {
  const endings = (readVariable(variables, "PATHEXT") ?? ".COM;.EXE;.BAT;.CMD").split(";").filter(Boolean);
  const folders = /[\\/]/.test(command) ? [""] : (readVariable(variables, "PATH") ?? "").split(";").filter(Boolean);
  const names = win32.extname(command) === "" ? endings.map((ending) => command + ending) : [command];
  return folders.flatMap((folder) => names.map((name) => win32.join(folder, name))).find(exists);
}

/** Names of variables have no case there. */
function readVariable(variables: EnvironmentVariables, name: string): string | undefined {
  return Object.entries(variables).find(([key]) => key.toUpperCase() === name)?.[1];
}

/** As programs take their command line apart: backslashes count only before a quote. */
function quoteArgument(arg: string): string {
  return `"${arg.replace(/(\\*)"/g, '$1$1\\"').replace(/(\\*)$/, "$1$1")}"`;
}

/** As `cmd.exe` reads it as plain text. Arguments are read twice: once here, and once when the file passes them on. */
function escapeForCmd(text: string): string {
  return text.replace(/[()[\]%!^"`<>&|;, *?]/g, "^$&");
}

/** How a server is started: nothing in it refers to anything any more. */
export interface ResolvedLaunch {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string | undefined;
}

export type ServerProcess = ChildProcessByStdio<Writable, Readable, Readable>;

/**
 * Starts a program without a shell, as the first of a group of its own: a signal to our group does not reach it, and
 * one to its group reaches what it starts. A failure is thrown, or comes as the child's `error`.
 */
export function startProcess(
  launch: ResolvedLaunch,
  ours: EnvironmentVariables,
  platform: NodeJS.Platform,
): ServerProcess {
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

/** Why a server did not start. The system's own error is not passed on: it quotes arguments and variables. */
export function toStartError(server: string, launch: ResolvedLaunch, thrown: unknown, hide: ValueRedactor): QmError {
  const command = hide(launch.command);
  const code = (thrown as NodeJS.ErrnoException | undefined)?.code;
  const startError = (why: string, hint: string): QmError =>
    new QmError("server_failed", `server ${server} could not be started: ${why}`, { hint });
  if (launch.cwd !== undefined && !existsSync(launch.cwd))
    return startError(`its folder ${hide(launch.cwd)} is not there`, "Make the folder, or correct `cwd`.");
  if (code === "ENOENT")
    return startError(
      `there is no program \`${command}\``,
      `Is ${command} installed, and on the PATH of this process? A full path as \`command\` is found always.`,
    );
  if (code === "EMFILE" || code === "ENFILE" || code === "EAGAIN")
    return new QmError("overloaded", `server ${server} could not be started: too many files or processes are open`, {
      hint: "Try again in a moment.",
    });
  if (code === "EACCES")
    return startError(`\`${command}\` may not be run`, "Make the file executable, or start it with its interpreter.");
  return startError(code ?? "the system refused it", "Check `command`, `args` and `env` of the server.");
}
