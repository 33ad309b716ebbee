import { chmodSync, existsSync, mkdirSync, statSync } from "node:fs";
import { basename, dirname } from "node:path";

/** The folder for the store, secrets, tokens and keys, unless the configuration names another. */
export const STATE_FOLDER = ".quartermaster";

/**
 * Creates a folder and its missing parents with mode 0700. An existing `.quartermaster` that others may enter is closed to
 * them; any other existing folder keeps its mode, because it may hold more than our files.
 */
export function makePrivateFolder(path: string): void {
  if (existsSync(path)) {
    if (basename(path) === STATE_FOLDER) closeToOthers(path);
    return;
  }
  // One folder at a time: below /proc, a recursive mkdir never returns.
  makePrivateFolder(dirname(path));
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (thrown) {
    // Another process may have created it first.
    if (!existsSync(path)) throw thrown;
  }
}

function closeToOthers(path: string): void {
  try {
    if ((statSync(path).mode & 0o077) !== 0) chmodSync(path, 0o700);
  } catch {
    // The folder belongs to another user, or the file system has no modes. The files in it are private by themselves.
  }
}
