import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, open, opendir, readlink, realpath } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { editDistance } from "../../core/nearest.ts";
import { isTemporaryName, type ResolvedPath } from "./file-root.ts";
import { explainFsError, explainFsErrors, getErrno } from "./fs-errors.ts";
import type { ProtectedPaths } from "./protected-paths.ts";

/** An open folder. Operations happen in it even if a link replaces its path in the meantime. */
export interface OpenFolder {
  readonly real: string;
  readonly protectedPaths: ProtectedPaths;
  at(name?: string): string;
  /** Makes a rename survive a power cut, if the system can. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Opens the folder with the real path `real`. Throws `path_refused` if a link has replaced a part of it, or if it is
 * protected. Linux reaches entries through the open handle (`/proc/self/fd`), which leaves no gap between check and use.
 * Elsewhere the gap is one system call.
 */
export async function openFolder(real: string, shown: string, protectedPaths: ProtectedPaths): Promise<OpenFolder> {
  // Node cannot open a folder on Windows.
  if (process.platform === "win32") {
    protectedPaths.requireUnprotected(real, shown);
    return { real, protectedPaths, at: (name = ".") => join(real, name), sync: async () => {}, close: async () => {} };
  }
  return explainFsErrors(shown, "open", async () => {
    const handle = await open(real, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    try {
      const byHandle = `/proc/self/fd/${handle.fd}`;
      const linked = await readlink(byHandle).catch(() => undefined);
      if ((linked ?? (await realpath(real))) !== real) {
        throw new QmError("path_refused", `${quoteName(shown)} was changed while it was being opened`);
      }
      protectedPaths.requireUnprotectedHandle(handle, shown);
      return {
        real,
        protectedPaths,
        at: (name = ".") => join(linked === undefined ? real : byHandle, name),
        sync: () => handle.sync().catch(() => undefined),
        close: () => handle.close(),
      };
    } catch (thrown) {
      await handle.close();
      throw thrown;
    }
  });
}

/** Runs `work` in the folder of the path, with the name of the path in it. Not for the root. */
export async function withParentFolder<T>(place: ResolvedPath, work: (folder: OpenFolder, name: string) => Promise<T>) {
  const folder = await openFolder(dirname(place.real), place.path, place.protectedPaths);
  try {
    return await work(folder, basename(place.real));
  } finally {
    await folder.close();
  }
}

/** Whether the path, which must exist, leads to something else than a folder. */
export async function isFile(place: ResolvedPath): Promise<boolean> {
  if (place.isRoot) return false;
  return withParentFolder(place, async (folder, name) => !(await statEntry(folder, name, place.path))?.isDirectory());
}

/** Runs `work` in the folder at the path. Throws `conflict` if it is not a folder. */
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

const SUGGESTION_LIMIT = 8;
const NAME_LIMIT = 1000;
const DISTANCE_LIMIT = 16;

export async function pathNotFoundError(place: ResolvedPath): Promise<QmError> {
  const suggestions = await findSuggestions(place);
  return new QmError("not_found", `${quoteName(place.path)} does not exist`, {
    details: { suggestions },
    hint: suggestions.length > 0 ? "Use one of the suggestions, or list the folder." : "List a parent folder.",
  });
}

async function findSuggestions(place: ResolvedPath): Promise<readonly string[]> {
  const parts = place.path.split("/");
  const above = parts.slice(0, parts.length - place.missing.length);
  const names = await withFolder(place, listFolderNames).catch(() => []);
  const similar = sortBySimilarity(place.missing[0] ?? "", names).slice(0, SUGGESTION_LIMIT);
  return similar.map((name) => [...above, name].join("/"));
}

async function listFolderNames(folder: OpenFolder): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of await opendir(folder.at())) {
    if (!isTemporaryName(name) && !folder.protectedPaths.hides(folder.real, name)) names.push(name);
    if (names.length === NAME_LIMIT) break;
  }
  return names;
}

function sortBySimilarity(requested: string, names: readonly string[]): readonly string[] {
  const wanted = requested.toLowerCase();
  const distance = (name: string) => {
    const lower = name.toLowerCase();
    const contains = lower.includes(wanted) || wanted.includes(lower);
    return contains ? 1 : editDistance(wanted, lower, DISTANCE_LIMIT);
  };
  return names
    .map((name) => ({ name, distance: distance(name) }))
    .sort((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1))
    .map(({ name }) => name);
}

export type OpenFile = { readonly handle: FileHandle; readonly stats: Stats };

/** Runs `work` on the regular file at the path, open for reading. */
export async function withFile<T>(place: ResolvedPath, work: (file: OpenFile) => Promise<T>): Promise<T> {
  if (place.missing.length > 0) throw await pathNotFoundError(place);
  if (place.isRoot) throw folderError(place.path);
  const file = await withParentFolder(place, async (folder, name) => {
    // A device is not opened, because that can have effects.
    const before = await statEntry(folder, name, place.path);
    if (before === undefined) throw await pathNotFoundError(place);
    requireRegular(before, place.path);
    return openEntry(folder, name, place.path);
  });
  return explainFsErrors(place.path, "read", () => work(file)).finally(() => file.handle.close());
}

/** Opens a regular file. Does not wait for the other end of a pipe, and does not follow a link. */
export const openEntry = async (folder: OpenFolder, name: string, shown: string): Promise<OpenFile> =>
  explainFsErrors(shown, "read", async () => {
    const handle = await open(folder.at(name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const stats = await handle.stat();
      requireRegular(stats, shown);
      folder.protectedPaths.requireUnprotectedHandle(handle, shown);
      return { handle, stats };
    } catch (thrown) {
      await handle.close();
      throw thrown;
    }
  });

/** The stats of the entry itself, without following a link. Undefined: there is none. */
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
  if (stats.isFile()) return;
  throw new QmError("path_refused", `${quoteName(shown)} is a link, a device or a pipe, not a regular file`);
}

const folderError = (shown: string): QmError =>
  new QmError("conflict", `${quoteName(shown)} is a folder, not a file`, {
    hint: "List it to see the files in it.",
  });
