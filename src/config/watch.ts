import { type FSWatcher, unwatchFile, watch, watchFile } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { messageOf, QmError } from "../core/errors.ts";
import { type ReadFile, readConfig } from "./load.ts";
import { type ConfigOptions, fingerprintOf, type LoadedConfig, parseConfig } from "./parse.ts";

export interface WatchOptions extends ConfigOptions {
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
  readonly readFile?: ReadFile;
}

/**
 * Follows a configuration file through edits, replacement, deletion and re-creation, until the returned function is
 * called; after that neither callback is called and nothing is left open. Does not keep the process alive. Unlike when
 * loading, a file without content is refused, comments or not: a file looks like that while it is being written, and the
 * defaults would allow everything.
 */
export function watchConfig(path: string, options: WatchOptions): () => void {
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
  lookSoon(0);

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
    lookSoon(debounceMs);
  }

  function onPoll(): void {
    // A folder that was deleted and made again is not the one that is watched.
    onFolderGone();
    watchFolder();
    lookSoon(debounceMs);
  }

  function clearTimer(): void {
    clearTimeout(timer);
    timer = undefined;
  }

  function lookSoon(ms: number): void {
    if (closed) return;
    timer ??= setTimeout(() => {
      timer = undefined;
      looking = looking.then(look);
    }, ms).unref();
  }

  async function look(): Promise<void> {
    if (closed) return;
    const state = await stateOf(file, options.readFile);
    if (closed) return;
    const isSettled = state.fingerprint === lastRead;
    lastRead = state.fingerprint;
    if (state.fingerprint === seen) return;
    // The beginning of a policy can be a valid policy that forbids less: a file is whole when it stays as it is.
    if (!isSettled) return lookSoon(debounceMs);
    seen = state.fingerprint;
    try {
      if ("error" in state) throw state.error;
      const next = parseConfig(state.bytes, file, options);
      if (next.isEmpty) throw new QmError("invalid_config", `${file} is empty; write {} for the defaults`);
      await options.onChange(next);
    } catch (thrown) {
      reject(thrown);
    }
  }

  function reject(thrown: unknown): void {
    if (closed) return;
    try {
      options.onRejected(
        thrown instanceof QmError ? thrown : new QmError("internal", messageOf(thrown), { cause: thrown }),
      );
    } catch {
      // There is no one left to tell, and the next change must still be seen.
    }
  }
}

type FileState =
  | { readonly fingerprint: string; readonly bytes: Uint8Array }
  | { readonly fingerprint: string; readonly error: unknown };

async function stateOf(path: string, readFile: ReadFile | undefined): Promise<FileState> {
  try {
    const bytes = await readConfig(path, readFile);
    return { fingerprint: fingerprintOf(bytes), bytes };
  } catch (error) {
    return { fingerprint: messageOf(error), error };
  }
}
