import { type FSWatcher, unwatchFile, watch, watchFile } from "node:fs";
import { lstat, readFile, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { hashConfig, type LoadedConfig, type ParseConfigOptions, parseConfig } from "./parse.ts";
import { CONFIG_BYTE_LIMIT } from "./yaml.ts";

export const CONFIG_FILE = "quartermaster.yaml";

/** Gives the bytes of a file, or throws. */
export type ReadConfigFile = (path: string) => Promise<Uint8Array>;

export interface LoadConfigOptions extends ParseConfigOptions {
  /** Where to look from, and what a given path is relative to. */
  readonly cwd: string;
  /** Absent: the file system. */
  readonly readFile?: ReadConfigFile;
}

/**
 * Loads the file at `path`, or the one `findConfig` finds, or, when there is none, the defaults. Throws
 * `invalid_config` with every problem of the file at once; the same as data is in `details.problems`.
 */
export async function loadConfig(path: string | undefined, options: LoadConfigOptions): Promise<LoadedConfig> {
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
    if (getErrorCode(thrown) === "ENOENT" || getErrorCode(thrown) === "ENOTDIR") return false;
    throw unreadableFileError(path, thrown);
  }
}

/** The bytes of a configuration file. Throws `invalid_config` when they cannot be read. */
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
  if (stats.size > CONFIG_BYTE_LIMIT)
    throw new QmError("invalid_config", `${path} is larger than ${CONFIG_BYTE_LIMIT} bytes`);
  return readFile(path);
}

function unreadableFileError(path: string, thrown: unknown): QmError {
  const code = getErrorCode(thrown);
  const why = code === "ENOENT" ? "there is no such file" : (code ?? getErrorMessage(thrown));
  return new QmError("invalid_config", `${path} cannot be read: ${why}`, { cause: thrown, details: { path } });
}

function getErrorCode(thrown: unknown): string | undefined {
  return thrown instanceof Error && "code" in thrown && typeof thrown.code === "string" ? thrown.code : undefined;
}

export interface WatchConfigOptions extends ParseConfigOptions {
  /** Puts a new configuration into force. When it throws or rejects, `onRejected` hears why. */
  readonly onChange: (loaded: LoadedConfig) => void | Promise<void>;
  /** Hears why a change was not taken; what was in force stays in force. Once for each state of the file. */
  readonly onRejected: (error: QmError) => void;
  /** The `fingerprint` of what is in force, so that a change made since it was loaded is not missed. */
  readonly since: string;
  /** How long the file must be left alone before it is read, and stay the same before it counts. */
  readonly debounceMs?: number;
  /** How often to look without having been told: links to other folders and network drives report nothing. */
  readonly pollMs?: number;
  /** Absent: the file system. */
  readonly readFile?: ReadConfigFile;
}

/**
 * Follows a configuration file through edits, replacement, deletion and re-creation, until the returned function is
 * called; after that neither callback is called and nothing is left open. Does not keep the process alive. Unlike when
 * loading, a file without content is refused, comments or not: a file looks like that while it is being written, and the
 * defaults would allow everything.
 */
export function watchConfig(path: string, options: WatchConfigOptions): () => void {
  const { debounceMs = 100, pollMs = 2000 } = options;
  const file = resolve(path);
  let folderWatch: FSWatcher | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;
  let seen = options.since;
  let lastRead: string | undefined;
  let looking = Promise.resolve();

  // Editors replace a file by renaming another over it, which a watch on the file itself would not survive.
  watchFolder();
  watchFile(file, { interval: pollMs, persistent: false }, onPoll);
  scheduleCheck(0);

  return () => {
    closed = true;
    clearTimeout(timer);
    folderWatch?.close();
    unwatchFile(file, onPoll);
  };

  function watchFolder(): void {
    try {
      folderWatch ??= watch(dirname(file), { persistent: false }, onFolderEvent).on("error", onFolderGone);
    } catch {
      // The folder is not there, or the system has no watches left: polling goes on, and this is tried again.
    }
  }

  function onFolderGone(): void {
    folderWatch?.close();
    folderWatch = undefined;
  }

  function onFolderEvent(_type: string, name: string | null): void {
    // A link on the way may have been replaced, so every event counts; only the file's own put off the reading.
    if (name === null || name === basename(file)) clearTimer();
    scheduleCheck(debounceMs);
  }

  function onPoll(): void {
    // A folder that was deleted and made again is not the one that is watched.
    onFolderGone();
    watchFolder();
    scheduleCheck(debounceMs);
  }

  function clearTimer(): void {
    clearTimeout(timer);
    timer = undefined;
  }

  function scheduleCheck(ms: number): void {
    if (closed) return;
    timer ??= setTimeout(() => {
      timer = undefined;
      looking = looking.then(checkFile);
    }, ms).unref();
  }

  async function checkFile(): Promise<void> {
    if (closed) return;
    const state = await readFileState(file, options.readFile);
    if (closed) return;
    const isSettled = state.fingerprint === lastRead;
    lastRead = state.fingerprint;
    if (state.fingerprint === seen) return;
    // The beginning of a policy can be a valid policy that forbids less: a file is whole when it stays as it is.
    if (!isSettled) return scheduleCheck(debounceMs);
    seen = state.fingerprint;
    try {
      if ("error" in state) throw state.error;
      const next = parseConfig(state.bytes, file, options);
      if (next.isEmpty) throw new QmError("invalid_config", `${file} is empty; write {} for the defaults`);
      await options.onChange(next);
    } catch (thrown) {
      reportRejected(thrown);
    }
  }

  function reportRejected(thrown: unknown): void {
    if (closed) return;
    try {
      options.onRejected(
        thrown instanceof QmError ? thrown : new QmError("internal", getErrorMessage(thrown), { cause: thrown }),
      );
    } catch {
      // There is no one left to tell, and the next change must still be seen.
    }
  }
}

type FileState =
  | { readonly fingerprint: string; readonly bytes: Uint8Array }
  | { readonly fingerprint: string; readonly error: unknown };

async function readFileState(path: string, readFile: ReadConfigFile | undefined): Promise<FileState> {
  try {
    const bytes = await readConfig(path, readFile);
    return { fingerprint: hashConfig(bytes), bytes };
  } catch (error) {
    return { fingerprint: getErrorMessage(error), error };
  }
}
