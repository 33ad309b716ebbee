import { posix, win32 } from "node:path";

/** What decides where clients keep their files. Given from outside, so that every platform can be told about on any. */
export interface ClientEnvironment {
  /** Absolute. */
  readonly home: string;
  /** The project's folder. Absolute. */
  readonly cwd: string;
  readonly env: { readonly [variable: string]: string | undefined };
  /** As `process.platform` says. */
  readonly platform: string;
}

/** A path below a folder, with the separators that the folder itself is written with. */
export function joinClientPath(folder: string, ...parts: readonly string[]): string {
  return detectPathStyle(folder).join(folder, ...parts);
}

/** A path as it is meant in a folder. */
export function resolveClientPath(folder: string, path: string): string {
  const style = detectPathStyle(folder);
  return style.isAbsolute(path) ? path : style.join(folder, path);
}

export function getBaseName(path: string): string {
  return detectPathStyle(path).basename(path);
}

export function getSeparator(folder: string): string {
  return detectPathStyle(folder).sep;
}

/** Where programs with windows keep what a user has set. */
export function getApplicationFolder(around: ClientEnvironment): string {
  const { home, env, platform } = around;
  if (platform === "win32") return env.APPDATA || joinClientPath(home, "AppData", "Roaming");
  return platform === "darwin" ? joinClientPath(home, "Library", "Application Support") : getConfigFolder(around);
}

/** Where programs of the terminal keep it. */
export function getConfigFolder({ home, env }: ClientEnvironment): string {
  // https://specifications.freedesktop.org/basedir-spec: one that is not absolute is not to be heard.
  const given = env.XDG_CONFIG_HOME;
  return given !== undefined && detectPathStyle(home).isAbsolute(given) ? given : joinClientPath(home, ".config");
}

function detectPathStyle(path: string): typeof posix {
  return /^(?:[A-Za-z]:[\\/]|\\\\)/.test(path) ? win32 : posix;
}
