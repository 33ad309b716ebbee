import { readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

const STAMP = /^\d{8}T\d{6}Z$/;
/** How many are looked through. */
const NEWEST = 20;

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
