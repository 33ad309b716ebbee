import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, open, opendir, readlink, realpath } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { editDistance } from "../../core/nearest.ts";
import type { ResolvedPath } from "./file-root.ts";
import { isTemporaryName } from "./file-root.ts";
import { explainFsError, getErrno } from "./fs-errors.ts";
import type { ProtectedPaths } from "./protected-paths.ts";

/** A folder held open, so that what is done in it happens there even if its path is meanwhile swapped for a link. */
export interface OpenFolder {
  /** Its real path when it was opened. Absolute, never shown. */
  readonly real: string;
  /** What must not be reached from here. */
  readonly protectedPaths: ProtectedPaths;
  /** The path by which to reach an entry of it; without a name, the folder itself. */
  at(name?: string): string;
  /** Makes a rename in it survive a power cut, where the system can. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Opens the folder whose real path is `real`, or throws `path_refused` if a link has taken the place of any part of
 * it, or if it is kept. Linux reaches entries through the open handle (`/proc/self/fd`), which leaves no gap between check and use;
 * elsewhere the gap is one system call.
 */
export async function openFolder(real: string, shown: string, kept: ProtectedPaths): Promise<OpenFolder> {
  if (process.platform === "win32") return openFolderByPath(real, shown, kept);
  let handle: FileHandle;
  try {
    handle = await open(real, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  } catch (thrown) {
    throw explainFsError(thrown, shown, "open");
  }
  try {
    const held = `/proc/self/fd/${handle.fd}`;
    const where = await readlink(held).catch(() => undefined);
    if ((where ?? (await realpath(real))) !== real) throw changedError(shown);
    kept.requireUnprotectedHandle(handle, shown);
    return {
      real,
      protectedPaths: kept,
      at: (name) => join(where === undefined ? real : held, name ?? "."),
      sync: () => handle.sync().catch(() => undefined),
      close: () => handle.close(),
    };
  } catch (thrown) {
    await handle.close();
    throw explainFsError(thrown, shown, "open");
  }
}

/** Node cannot hold a folder open on Windows. */
function openFolderByPath(real: string, shown: string, kept: ProtectedPaths): OpenFolder {
  kept.requireUnprotected(real, shown);
  return {
    real,
    protectedPaths: kept,
    at: (name) => join(real, name ?? "."),
    sync: async () => {},
    close: async () => {},
  };
}

function changedError(shown: string): QmError {
  return new QmError("path_refused", `${quoteName(shown)} was changed while it was being opened`);
}

/** Runs `work` in the folder that holds the place, with the place's name in it. Not for the root. */
export async function withParentFolder<T>(
  place: ResolvedPath,
  work: (folder: OpenFolder, name: string) => Promise<T>,
): Promise<T> {
  const folder = await openFolder(dirname(place.real), place.path, place.protectedPaths);
  try {
    return await work(folder, basename(place.real));
  } finally {
    await folder.close();
  }
}

/** Runs `work` in the folder that the place is. Throws `conflict` when it is not one. */
export async function withFolder<T>(place: ResolvedPath, work: (folder: OpenFolder) => Promise<T>): Promise<T> {
  const folder = await openFolder(place.real, place.path, place.protectedPaths).catch((thrown: unknown) => {
    const isFile = thrown instanceof QmError && getErrno(thrown.cause) === "ENOTDIR";
    throw isFile ? new QmError("conflict", `${quoteName(place.path)} is a file, not a folder`) : thrown;
  });
  try {
    return await work(folder);
  } finally {
    await folder.close();
  }
}

const SUGGESTIONS = 8;
const CONSIDERED = 1000;
/** Names with more differences are all equally far. */
const DIFFERENCES = 16;

/** `not_found` for a place with missing parts, with what is there under a similar name. */
export async function pathNotFoundError(place: ResolvedPath): Promise<QmError> {
  const suggestions = await findSuggestions(place);
  return new QmError("not_found", `${quoteName(place.path)} does not exist`, {
    details: { suggestions },
    hint:
      suggestions.length > 0
        ? "Use one of the suggestions, or list the folder."
        : "List a folder above it to see what is there.",
  });
}

async function findSuggestions(place: ResolvedPath): Promise<readonly string[]> {
  const parts = place.path.split("/");
  const above = parts.slice(0, parts.length - place.missing.length);
  const names = await withFolder(place, listFolderNames).catch(() => []);
  return sortBySimilarity(place.missing[0] ?? "", names)
    .slice(0, SUGGESTIONS)
    .map((name) => [...above, name].join("/"));
}

async function listFolderNames(folder: OpenFolder): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of await opendir(folder.at())) {
    if (!isTemporaryName(name) && !folder.protectedPaths.hides(folder.real, name)) names.push(name);
    if (names.length === CONSIDERED) break;
  }
  return names;
}

function sortBySimilarity(asked: string, names: readonly string[]): readonly string[] {
  const wanted = asked.toLowerCase();
  const distance = (name: string) => {
    const lower = name.toLowerCase();
    const holds = lower.includes(wanted) || wanted.includes(lower);
    return holds ? 1 : editDistance(wanted, lower, DIFFERENCES);
  };
  return names
    .map((name) => ({ name, distance: distance(name) }))
    .sort((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1))
    .map(({ name }) => name);
}

export interface OpenFile {
  readonly handle: FileHandle;
  readonly stats: Stats;
}

/** Runs `work` on the regular file at a place, open for reading, and closes it. */
export async function withFile<T>(place: ResolvedPath, work: (file: OpenFile) => Promise<T>): Promise<T> {
  if (place.missing.length > 0) throw await pathNotFoundError(place);
  if (place.isRoot) throw folderError(place.path);
  const file = await withParentFolder(place, async (folder, name) => {
    // A device can act on being opened, so it is not.
    const before = await statEntry(folder, name, place.path);
    if (before === undefined) throw await pathNotFoundError(place);
    requireRegular(before, place.path);
    return openEntry(folder, name, place.path);
  });
  try {
    return await work(file);
  } catch (thrown) {
    throw explainFsError(thrown, place.path, "read");
  } finally {
    await file.handle.close();
  }
}

/** Opens an entry that must be a regular file. Never waits for the other end of a pipe and never follows a link. */
export async function openEntry(folder: OpenFolder, name: string, shown: string): Promise<OpenFile> {
  let handle: FileHandle;
  try {
    handle = await open(folder.at(name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (thrown) {
    throw explainFsError(thrown, shown, "read");
  }
  try {
    const stats = await handle.stat();
    requireRegular(stats, shown);
    folder.protectedPaths.requireUnprotectedHandle(handle, shown);
    return { handle, stats };
  } catch (thrown) {
    await handle.close();
    throw explainFsError(thrown, shown, "read");
  }
}

/** What the entry itself is, links not followed, or undefined when there is none. */
export async function statEntry(folder: OpenFolder, name: string, shown: string): Promise<Stats | undefined> {
  try {
    return await lstat(folder.at(name));
  } catch (thrown) {
    if (getErrno(thrown) === "ENOENT") return undefined;
    throw explainFsError(thrown, shown, "look at");
  }
}

export function requireRegular(stats: Stats, shown: string): void {
  if (stats.isDirectory()) throw folderError(shown);
  if (!stats.isFile())
    throw new QmError("path_refused", `${quoteName(shown)} is a link, a device or a pipe, not a regular file`);
}

function folderError(shown: string): QmError {
  return new QmError("conflict", `${quoteName(shown)} is a folder, not a file`, {
    hint: "List it to see the files in it.",
  });
}
