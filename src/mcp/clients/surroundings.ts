import { posix, win32 } from "node:path";

/** What decides where clients keep their files. Given from outside, so that every platform can be told about on any. */
export interface Surroundings {
  /** Absolute. */
  readonly home: string;
  /** The project's folder. Absolute. */
  readonly cwd: string;
  readonly env: { readonly [variable: string]: string | undefined };
  /** As `process.platform` says. */
  readonly platform: string;
}

/** A path below a folder, with the separators that the folder itself is written with. */
export function below(folder: string, ...parts: readonly string[]): string {
  return styleOf(folder).join(folder, ...parts);
}

/** A path as it is meant in a folder. */
export function resolvedIn(folder: string, path: string): string {
  const style = styleOf(folder);
  return style.isAbsolute(path) ? path : style.join(folder, path);
}

export function lastPart(path: string): string {
  return styleOf(path).basename(path);
}

export function separatorOf(folder: string): string {
  return styleOf(folder).sep;
}

/** Where programs with windows keep what a user has set. */
export function applicationFolder(around: Surroundings): string {
  const { home, env, platform } = around;
  if (platform === "win32") return env.APPDATA || below(home, "AppData", "Roaming");
  return platform === "darwin" ? below(home, "Library", "Application Support") : configFolder(around);
}

/** Where programs of the terminal keep it. */
export function configFolder({ home, env }: Surroundings): string {
  // https://specifications.freedesktop.org/basedir-spec: one that is not absolute is not to be heard.
  const given = env.XDG_CONFIG_HOME;
  return given !== undefined && styleOf(home).isAbsolute(given) ? given : below(home, ".config");
}

function styleOf(path: string): typeof posix {
  return /^(?:[A-Za-z]:[\\/]|\\\\)/.test(path) ? win32 : posix;
}
