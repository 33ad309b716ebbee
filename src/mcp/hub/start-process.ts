import { type ChildProcessByStdio, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import { QmError } from "../../core/errors.ts";
import { serverEnvironment, type Variables } from "./environment.ts";
import type { Hide } from "./hide-values.ts";
import { windowsCommand } from "./windows-command.ts";

/** How a server is started: nothing in it refers to anything any more. */
export interface FilledLaunch {
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
export function startProcess(launch: FilledLaunch, ours: Variables, platform: NodeJS.Platform): ServerProcess {
  const env = serverEnvironment(ours, launch.env, platform);
  const { file, args, verbatim } =
    platform === "win32"
      ? windowsCommand(launch.command, launch.args, env, existsSync)
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
export function startFailure(server: string, launch: FilledLaunch, thrown: unknown, hide: Hide): QmError {
  const command = hide(launch.command);
  const code = (thrown as NodeJS.ErrnoException | undefined)?.code;
  const failed = (why: string, hint: string): QmError =>
    new QmError("server_failed", `server ${server} could not be started: ${why}`, { hint });
  if (launch.cwd !== undefined && !existsSync(launch.cwd))
    return failed(`its folder ${hide(launch.cwd)} is not there`, "Make the folder, or correct `cwd`.");
  if (code === "ENOENT")
    return failed(
      `there is no program \`${command}\``,
      `Is ${command} installed, and on the PATH of this process? A full path as \`command\` is found always.`,
    );
  if (code === "EMFILE" || code === "ENFILE" || code === "EAGAIN")
    return new QmError("overloaded", `server ${server} could not be started: too many files or processes are open`, {
      hint: "Try again in a moment.",
    });
  if (code === "EACCES")
    return failed(`\`${command}\` may not be run`, "Make the file executable, or start it with its interpreter.");
  return failed(code ?? "the system refused it", "Check `command`, `args` and `env` of the server.");
}
