import { access, constants, stat, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { messageOf } from "../../core/errors.ts";
import { packageFacts } from "../../package-facts.ts";
import { type Check, fail, ok, warn } from "./check.ts";

export function checkNode(version: string): Check {
  const least = packageFacts().engines.node.replace(/^\D*/, "");
  return compareVersions(version, least) >= 0
    ? ok("node", `${version} (at least ${least} is needed)`)
    : fail("node", `${version} is too old`, `Install Node ${least} or newer.`);
}

function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => text.split(".").map(Number));
  for (const part of [0, 1, 2]) {
    const difference = (left?.[part] ?? 0) - (right?.[part] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Whether a store at `path` can be written, without making one. */
export async function checkWritable(path: string): Promise<Check> {
  const isThere = await stat(path).then(
    () => true,
    () => false,
  );
  const folder = await existingFolder(dirname(path));
  try {
    if (isThere) await access(path, constants.R_OK | constants.W_OK);
    await access(folder, constants.W_OK | constants.X_OK);
    return ok("store", isThere ? path : `${path}, which the first call makes`);
  } catch (thrown) {
    const what = isThere ? path : folder;
    return fail("store", `${what} is not writable: ${messageOf(thrown)}`, "Make it writable, or change store.path.");
  }
}

const LITTLE_BYTES = 100 * 1024 * 1024;

export async function checkDisk(path: string): Promise<readonly Check[]> {
  try {
    const { bavail, bsize } = await statfs(await existingFolder(dirname(path)));
    const free = bavail * bsize;
    const message = `${free >= 2 ** 30 ? `${Math.floor(free / 2 ** 30)} GiB` : `${Math.floor(free / 2 ** 20)} MiB`} free beside the store`;
    return [
      free < LITTLE_BYTES
        ? warn("disk", message, "Free some space: a call that cannot be recorded fails.")
        : ok("disk", message),
    ];
  } catch {
    // Not every file system can say, and it is nothing to worry about.
    return [];
  }
}

async function existingFolder(path: string): Promise<string> {
  try {
    return (await stat(path)).isDirectory() || dirname(path) === path ? path : existingFolder(dirname(path));
  } catch {
    return dirname(path) === path ? path : existingFolder(dirname(path));
  }
}
