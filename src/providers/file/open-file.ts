import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, open } from "node:fs/promises";
import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import type { Place } from "./confine.ts";
import { type Folder, inFolderOf } from "./folder.ts";
import { errnoOf, explained } from "./fs-errors.ts";
import { notFound } from "./nearby.ts";

export interface OpenFile {
  readonly handle: FileHandle;
  readonly stats: Stats;
}

/** Runs `work` on the regular file at a place, open for reading, and closes it. */
export async function withFile<T>(place: Place, work: (file: OpenFile) => Promise<T>): Promise<T> {
  if (place.missing.length > 0) throw await notFound(place);
  if (place.isRoot) throw isFolder(place.path);
  const file = await inFolderOf(place, async (folder, name) => {
    // A device can act on being opened, so it is not.
    const before = await statsIn(folder, name, place.path);
    if (before === undefined) throw await notFound(place);
    requireRegular(before, place.path);
    return openIn(folder, name, place.path);
  });
  try {
    return await work(file);
  } catch (thrown) {
    throw explained(thrown, place.path, "read");
  } finally {
    await file.handle.close();
  }
}

/** Opens an entry that must be a regular file. Never waits for the other end of a pipe and never follows a link. */
export async function openIn(folder: Folder, name: string, shown: string): Promise<OpenFile> {
  let handle: FileHandle;
  try {
    handle = await open(folder.at(name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (thrown) {
    throw explained(thrown, shown, "read");
  }
  try {
    const stats = await handle.stat();
    requireRegular(stats, shown);
    folder.kept.requireFreeHandle(handle, shown);
    return { handle, stats };
  } catch (thrown) {
    await handle.close();
    throw explained(thrown, shown, "read");
  }
}

/** What the entry itself is, links not followed, or undefined when there is none. */
export async function statsIn(folder: Folder, name: string, shown: string): Promise<Stats | undefined> {
  try {
    return await lstat(folder.at(name));
  } catch (thrown) {
    if (errnoOf(thrown) === "ENOENT") return undefined;
    throw explained(thrown, shown, "look at");
  }
}

export function requireRegular(stats: Stats, shown: string): void {
  if (stats.isDirectory()) throw isFolder(shown);
  if (!stats.isFile())
    throw new QmError("path_refused", `${quoted(shown)} is a link, a device or a pipe, not a regular file`);
}

function isFolder(shown: string): QmError {
  return new QmError("conflict", `${quoted(shown)} is a folder, not a file`, {
    hint: "List it to see the files in it.",
  });
}
