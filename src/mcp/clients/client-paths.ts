import { posix, win32 } from "node:path";
import type { ClientFile, ClientScope } from "./clients.ts";

/** The machine as clients see it. Passed in, so that tests cover every platform on any machine. */
export interface ClientEnvironment {
  readonly home: string;
  /** The project folder. */
  readonly cwd: string;
  readonly env: { readonly [variable: string]: string | undefined };
  readonly platform: string;
}

/** Joins with the separators that `folder` uses. */
export function joinClientPath(folder: string, ...parts: readonly string[]): string {
  return detectPathStyle(folder).join(folder, ...parts);
}

export function createClientFile(scope: ClientScope, key: string, folder: string, ...parts: string[]): ClientFile {
  return { path: joinClientPath(folder, ...parts), scope, keys: [key] };
}

export function resolveClientPath(folder: string, path: string): string {
  const style = detectPathStyle(folder);
  return style.isAbsolute(path) ? path : style.join(folder, path);
}

export const getBaseName = (path: string): string => detectPathStyle(path).basename(path);
export const getSeparator = (folder: string): string => detectPathStyle(folder).sep;

/** The settings folder of desktop programs. */
export function getApplicationFolder(around: ClientEnvironment): string {
  const { home, env, platform } = around;
  if (platform === "win32") return env.APPDATA || joinClientPath(home, "AppData", "Roaming");
  return platform === "darwin" ? joinClientPath(home, "Library", "Application Support") : getConfigFolder(around);
}

/** The settings folder of terminal programs. */
export function getConfigFolder({ home, env }: ClientEnvironment): string {
  // https://specifications.freedesktop.org/basedir-spec: ignore a path that is not absolute.
  const given = env.XDG_CONFIG_HOME;
  return given !== undefined && detectPathStyle(home).isAbsolute(given) ? given : joinClientPath(home, ".config");
}

const detectPathStyle = (path: string): typeof posix => (/^(?:[A-Za-z]:[\\/]|\\\\)/.test(path) ? win32 : posix);
