import { lstat, readFile, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { messageOf, QmError } from "../core/errors.ts";
import { type ConfigOptions, type LoadedConfig, parseConfig } from "./parse.ts";
import { BYTE_LIMIT } from "./yaml.ts";

export const CONFIG_FILE = "quartermaster.yaml";

/** Gives the bytes of a file, or throws. */
export type ReadFile = (path: string) => Promise<Uint8Array>;

export interface LoadOptions extends ConfigOptions {
  /** Where to look from, and what a given path is relative to. */
  readonly cwd: string;
  /** Absent: the file system. */
  readonly readFile?: ReadFile;
}

/**
 * Loads the file at `path`, or the one `findConfig` finds, or, when there is none, the defaults. Throws
 * `invalid_config` with every problem of the file at once; the same as data is in `details.problems`.
 */
export async function loadConfig(path: string | undefined, options: LoadOptions): Promise<LoadedConfig> {
  const found = path === undefined ? await findConfig(options.cwd) : resolve(options.cwd, path);
  if (found !== undefined) return parseConfig(await readConfig(found, options.readFile), found, options);
  const { path: _nowhere, ...defaults } = parseConfig(new Uint8Array(), resolve(options.cwd, CONFIG_FILE), options);
  return defaults;
}

/** The nearest `quartermaster.yaml` in `cwd` or a folder above it. */
export async function findConfig(cwd: string): Promise<string | undefined> {
  const folder = resolve(cwd);
  const path = join(folder, CONFIG_FILE);
  // A link that leads nowhere counts as found: going on without the policy it stood for would be worse than failing.
  if (await isFileOrLink(path)) return path;
  return dirname(folder) === folder ? undefined : findConfig(dirname(folder));
}

async function isFileOrLink(path: string): Promise<boolean> {
  try {
    const stats = await lstat(path);
    return stats.isFile() || stats.isSymbolicLink();
  } catch (thrown) {
    if (codeOf(thrown) === "ENOENT" || codeOf(thrown) === "ENOTDIR") return false;
    throw unreadable(path, thrown);
  }
}

/** The bytes of a configuration file. Throws `invalid_config` when they cannot be read. */
export async function readConfig(path: string, read: ReadFile = readSmallFile): Promise<Uint8Array> {
  try {
    return await read(path);
  } catch (thrown) {
    throw thrown instanceof QmError ? thrown : unreadable(path, thrown);
  }
}

async function readSmallFile(path: string): Promise<Uint8Array> {
  const stats = await stat(path);
  if (!stats.isFile()) throw new QmError("invalid_config", `${path} is not a file`);
  if (stats.size > BYTE_LIMIT) throw new QmError("invalid_config", `${path} is larger than ${BYTE_LIMIT} bytes`);
  return readFile(path);
}

function unreadable(path: string, thrown: unknown): QmError {
  const code = codeOf(thrown);
  const why = code === "ENOENT" ? "there is no such file" : (code ?? messageOf(thrown));
  return new QmError("invalid_config", `${path} cannot be read: ${why}`, { cause: thrown, details: { path } });
}

function codeOf(thrown: unknown): string | undefined {
  return thrown instanceof Error && "code" in thrown && typeof thrown.code === "string" ? thrown.code : undefined;
}
