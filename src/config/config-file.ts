import { type FSWatcher, unwatchFile, watch, watchFile } from "node:fs";
import { lstat, readFile, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { getErrorMessage, QmError, toQmError } from "../core/errors.ts";
import { YAML_BYTE_LIMIT } from "../core/yaml.ts";
import { hashConfig, type LoadedConfig, type ParseConfigOptions, parseConfig } from "./parse.ts";

export const CONFIG_FILE = "quartermaster.yaml";
export type ReadConfigFile = (path: string) => Promise<Uint8Array>;

export interface LoadConfigOptions extends ParseConfigOptions {
  /** The folder to start the search in, and the base of a relative path. */
  readonly cwd: string;
  readonly readFile?: ReadConfigFile;
}

/** Loads `path`, the file `findConfig` finds, or the defaults. Throws `invalid_config` with `details.problems`. */
export async function loadConfig(path: string | undefined, options: LoadConfigOptions): Promise<LoadedConfig> {
  const found = path === undefined ? await findConfig(options.cwd) : resolve(options.cwd, path);
  if (found !== undefined) return parseConfig(await readConfig(found, options.readFile), found, options);
  const { path: _, ...defaults } = parseConfig(new Uint8Array(), resolve(options.cwd, CONFIG_FILE), options);
  return defaults;
}

/** The nearest `quartermaster.yaml` in `cwd` or a folder above it. */
export async function findConfig(cwd: string): Promise<string | undefined> {
  const folder = resolve(cwd);
  const path = join(folder, CONFIG_FILE);
  if (await isFileOrLink(path)) return path;
  return dirname(folder) === folder ? undefined : findConfig(dirname(folder));
}

// A broken link counts as found: to go on without the policy it stood for would be worse than to fail.
async function isFileOrLink(path: string): Promise<boolean> {
  try {
    const stats = await lstat(path);
    return stats.isFile() || stats.isSymbolicLink();
  } catch (thrown) {
    if (getErrorCode(thrown) === "ENOENT" || getErrorCode(thrown) === "ENOTDIR") return false;
    throw unreadableFileError(path, thrown);
  }
}

/** The bytes of a configuration file. Throws `invalid_config` if it cannot be read. */
export async function readConfig(path: string, read: ReadConfigFile = readSmallFile): Promise<Uint8Array> {
  try {
    return await read(path);
  } catch (thrown) {
    throw thrown instanceof QmError ? thrown : unreadableFileError(path, thrown);
  }
}

async function readSmallFile(path: string): Promise<Uint8Array> {
  const stats = await stat(path);
  if (!stats.isFile()) throw new QmError("invalid_config", `${path} is not a file`);
  if (stats.size > YAML_BYTE_LIMIT)
    throw new QmError("invalid_config", `${path} is larger than ${YAML_BYTE_LIMIT} bytes`);
  return readFile(path);
}

function unreadableFileError(path: string, thrown: unknown): QmError {
  const code = getErrorCode(thrown);
  const why = code === "ENOENT" ? "there is no such file" : (code ?? getErrorMessage(thrown));
  return new QmError("invalid_config", `${path} cannot be read: ${why}`, { cause: thrown, details: { path } });
}

const getErrorCode = (thrown: unknown): string | undefined =>
  thrown instanceof Error && "code" in thrown && typeof thrown.code === "string" ? thrown.code : undefined;

export interface WatchConfigOptions extends ParseConfigOptions {
  /** Puts a new configuration into force. If it throws or rejects, `onRejected` is called. */
  readonly onChange: (loaded: LoadedConfig) => void | Promise<void>;
  /** Called once for each state of the file that is not applied. The former configuration stays in force. */
  readonly onRejected: (error: QmError) => void;
  /** The `fingerprint` of the configuration in force, so that a change since it was loaded is not missed. */
  readonly since: string;
  /** How long the file must stay unchanged before it is read, and again before it is applied. */
  readonly debounceMs?: number;
  /** How often the file is checked without an event: links to other folders and network drives send none. */
  readonly pollMs?: number;
  readonly readFile?: ReadConfigFile;
}

/**
 * Follows a configuration file through edits, replacement, deletion and re-creation. The returned function stops that;
 * afterwards neither callback is called and nothing stays open. Does not keep the process alive. Rejects a file without
 * content, unlike `loadConfig`: a file looks like that while it is written, and the defaults allow everything.
 */
export function watchConfig(path: string, options: WatchConfigOptions): () => void {
  const { debounceMs = 100, pollMs = 2000, since, onChange, onRejected } = options;
  const file = resolve(path);
  let folderWatch: FSWatcher | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;
  let seen = since;
  let lastRead: string | undefined;
  let checking = Promise.resolve();

  watchFolder();
  watchFile(file, { interval: pollMs, persistent: false }, onPoll);
  scheduleCheck(0);

  return () => {
    closed = true;
    clearTimeout(timer);
    folderWatch?.close();
    unwatchFile(file, onPoll);
  };

  /** Editors replace a file by renaming another over it. A watch on the file itself would not survive that. */
  function watchFolder(): void {
    try {
      folderWatch ??= watch(dirname(file), { persistent: false }, onFolderEvent).on("error", unwatchFolder);
    } catch {
      // The folder does not exist, or the system has no watches left. The next poll tries again.
    }
  }

  function unwatchFolder(): void {
    folderWatch?.close();
    folderWatch = undefined;
  }

  function onFolderEvent(_type: string, name: string | null): void {
    // Every event counts, because a link on the path may have changed. Only the file's own events delay the check.
    if (name === null || name === basename(file)) {
      clearTimeout(timer);
      timer = undefined;
    }
    scheduleCheck(debounceMs);
  }

  function onPoll(): void {
    // A folder that was deleted and created again is another one than the watched.
    unwatchFolder();
    watchFolder();
    scheduleCheck(debounceMs);
  }

  function scheduleCheck(ms: number): void {
    if (closed) return;
    timer ??= setTimeout(() => {
      timer = undefined;
      checking = checking.then(checkFile);
    }, ms).unref();
  }

  async function checkFile(): Promise<void> {
    if (closed) return;
    const { fingerprint, bytes, error } = await readFileState(file, options.readFile);
    if (closed) return;
    const isSettled = fingerprint === lastRead;
    lastRead = fingerprint;
    if (fingerprint === seen) return;
    // The beginning of a policy can be a valid, looser policy, so the file must read the same twice.
    if (!isSettled) return scheduleCheck(debounceMs);
    seen = fingerprint;
    try {
      if (bytes === undefined) throw error;
      const next = parseConfig(bytes, file, options);
      if (next.isEmpty) throw new QmError("invalid_config", `${file} is empty; write {} for the defaults`);
      await onChange(next);
    } catch (thrown) {
      reject(thrown);
    }
  }

  function reject(thrown: unknown): void {
    if (closed) return;
    try {
      onRejected(toQmError(thrown));
    } catch {
      // A failing listener must not stop the watch.
    }
  }
}

async function readFileState(path: string, read: ReadConfigFile | undefined) {
  try {
    const bytes = await readConfig(path, read);
    return { fingerprint: hashConfig(bytes), bytes };
  } catch (error) {
    return { fingerprint: getErrorMessage(error), error };
  }
}
