import { constants } from "node:fs";
import { copyFile, readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

const STAMP = /^\d{8}T\d{6}Z$/;
/** How many are looked through. */
const NEWEST = 20;

/** Copies a file beside itself, under its name and the time, with its permissions. Never over another copy. */
export async function backUp(path: string, now: Date): Promise<string> {
  for (let second = 0; ; second++) {
    const at = new Date(now.getTime() + second * 1000);
    const backup = `${path}.bak-${at.toISOString().replaceAll(/[-:]|\.\d+/g, "")}`;
    try {
      await copyFile(path, backup, constants.COPYFILE_EXCL);
      return backup;
    } catch (thrown) {
      // Two changes within one second are two copies.
      if ((thrown as NodeJS.ErrnoException).code !== "EEXIST" || second === 60) throw thrown;
    }
  }
}

/** The copies of a file that are there, newest first. */
export async function backupsOf(path: string): Promise<readonly string[]> {
  const start = `${basename(path)}.bak-`;
  const names = await readdir(dirname(path)).catch(() => []);
  return names
    .filter((name) => name.startsWith(start) && STAMP.test(name.slice(start.length)))
    .sort()
    .reverse()
    .slice(0, NEWEST)
    .map((name) => join(dirname(path), name));
}
