import { win32 } from "node:path";
import type { Variables } from "./environment.ts";

/** A program and its arguments, as they are handed to the system. */
export interface Command {
  readonly file: string;
  readonly args: readonly string[];
  /** Windows: the arguments are quoted already. */
  readonly verbatim: boolean;
}

/**
 * What to start on Windows for a command: `npx` and its like are `.cmd` files there, which only `cmd.exe` runs. Not
 * tried on a real Windows.
 */
export function windowsCommand(
  command: string,
  args: readonly string[],
  variables: Variables,
  exists: (path: string) => boolean,
): Command {
  const found = located(command, variables, exists) ?? command;
  if (!/\.(?:cmd|bat)$/i.test(found)) return { file: found, args, verbatim: false };
  const line = [escaped(found), ...args.map((arg) => escaped(escaped(quoted(arg))))].join(" ");
  return { file: variableOf(variables, "COMSPEC") ?? "cmd.exe", args: ["/d", "/s", "/c", `"${line}"`], verbatim: true };
}

function located(command: string, variables: Variables, exists: (path: string) => boolean): string | undefined {
  const endings = (variableOf(variables, "PATHEXT") ?? ".COM;.EXE;.BAT;.CMD").split(";").filter(Boolean);
  const folders = /[\\/]/.test(command) ? [""] : (variableOf(variables, "PATH") ?? "").split(";").filter(Boolean);
  const names = win32.extname(command) === "" ? endings.map((ending) => command + ending) : [command];
  return folders.flatMap((folder) => names.map((name) => win32.join(folder, name))).find(exists);
}

/** Names of variables have no case there. */
function variableOf(variables: Variables, name: string): string | undefined {
  return Object.entries(variables).find(([key]) => key.toUpperCase() === name)?.[1];
}

/** As programs take their command line apart: backslashes count only before a quote. */
function quoted(arg: string): string {
  return `"${arg.replace(/(\\*)"/g, '$1$1\\"').replace(/(\\*)$/, "$1$1")}"`;
}

/** As `cmd.exe` reads it as plain text. Arguments are read twice: once here, and once when the file passes them on. */
function escaped(text: string): string {
  return text.replace(/[()[\]%!^"`<>&|;, *?]/g, "^$&");
}
