import { constants } from "node:fs";
import { type FileHandle, open, readlink, realpath } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import type { Place } from "./confine.ts";
import { errnoOf, explained } from "./fs-errors.ts";
import type { Kept } from "./kept.ts";

/** A folder held open, so that what is done in it happens there even if its path is meanwhile swapped for a link. */
export interface Folder {
  /** Its real path when it was opened. Absolute, never shown. */
  readonly real: string;
  /** What must not be reached from here. */
  readonly kept: Kept;
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
export async function openFolder(real: string, shown: string, kept: Kept): Promise<Folder> {
  if (process.platform === "win32") return unheld(real, shown, kept);
  let handle: FileHandle;
  try {
    handle = await open(real, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  } catch (thrown) {
    throw explained(thrown, shown, "open");
  }
  try {
    const held = `/proc/self/fd/${handle.fd}`;
    const where = await readlink(held).catch(() => undefined);
    if ((where ?? (await realpath(real))) !== real) throw swapped(shown);
    kept.requireFreeHandle(handle, shown);
    return {
      real,
      kept,
      at: (name) => join(where === undefined ? real : held, name ?? "."),
      sync: () => handle.sync().catch(() => undefined),
      close: () => handle.close(),
    };
  } catch (thrown) {
    await handle.close();
    throw explained(thrown, shown, "open");
  }
}

/** Node cannot hold a folder open on Windows. */
function unheld(real: string, shown: string, kept: Kept): Folder {
  kept.requireFree(real, shown);
  return { real, kept, at: (name) => join(real, name ?? "."), sync: async () => {}, close: async () => {} };
}

function swapped(shown: string): QmError {
  return new QmError("path_refused", `${quoted(shown)} was changed while it was being opened`);
}

/** Runs `work` in the folder that holds the place, with the place's name in it. Not for the root. */
export async function inFolderOf<T>(place: Place, work: (folder: Folder, name: string) => Promise<T>): Promise<T> {
  const folder = await openFolder(dirname(place.real), place.path, place.kept);
  try {
    return await work(folder, basename(place.real));
  } finally {
    await folder.close();
  }
}

/** Runs `work` in the folder that the place is. Throws `conflict` when it is not one. */
export async function inFolder<T>(place: Place, work: (folder: Folder) => Promise<T>): Promise<T> {
  const folder = await openFolder(place.real, place.path, place.kept).catch((thrown: unknown) => {
    const isFile = thrown instanceof QmError && errnoOf(thrown.cause) === "ENOTDIR";
    throw isFile ? new QmError("conflict", `${quoted(place.path)} is a file, not a folder`) : thrown;
  });
  try {
    return await work(folder);
  } finally {
    await folder.close();
  }
}
