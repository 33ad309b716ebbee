import { randomBytes } from "node:crypto";
import { chmodSync, constants, existsSync, mkdirSync, statSync } from "node:fs";
import { chmod, copyFile, link, open, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** The folder for the store, secrets, tokens and keys, unless the configuration names another. */
export const STATE_FOLDER = ".quartermaster";

/**
 * Creates a folder and its missing parents with mode 0700. An existing `.quartermaster` that others may enter is closed to
 * them; any other existing folder keeps its mode, because it may hold more than our files.
 */
export function createPrivateFolder(path: string): void {
  if (existsSync(path)) {
    if (basename(path) === STATE_FOLDER) restrictAccess(path);
    return;
  }
  // One folder at a time: below /proc, a recursive mkdir never returns.
  createPrivateFolder(dirname(path));
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (thrown) {
    // Another process may have created it first.
    if (!existsSync(path)) throw thrown;
  }
}

function restrictAccess(path: string): void {
  try {
    if ((statSync(path).mode & 0o077) !== 0) chmodSync(path, 0o700);
  } catch {
    // The folder belongs to another user, or the file system has no modes. The files in it are private by themselves.
  }
}

/**
 * Makes a file that only its owner can read, whole or not at all, and never in the place of another: of two that make it at
 * the same time, the second finds the first one's.
 */
export async function createFileOnce(path: string, text: string): Promise<void> {
  createPrivateFolder(dirname(path));
  const beside = `${path}.${randomBytes(8).toString("hex")}`;
  await writeFile(beside, text, { flag: "wx", mode: 0o600 });
  try {
    await link(beside, path);
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "EEXIST") throw thrown;
  } finally {
    await rm(beside, { force: true });
  }
}

/** Copies a file beside itself, under its name and the time, with its permissions. Never over another copy. */
export async function backUpFile(path: string, now: Date): Promise<string> {
  for (let second = 0; ; second++) {
    const at = new Date(now.getTime() + second * 1000);
    const backup = `${path}.bak-${at.toISOString().replaceAll(/[-:]|\.\d+/g, "")}`;
    try {
      await copyFile(path, backup, constants.COPYFILE_EXCL);
      // A copy takes over setuid and setgid too, which a backup must not have.
      await chmod(backup, (await stat(backup)).mode & 0o777);
      return backup;
    } catch (thrown) {
      // Two changes within one second are two copies.
      if ((thrown as NodeJS.ErrnoException).code !== "EEXIST" || second === 60) throw thrown;
    }
  }
}

interface ReplaceFileOptions {
  /** Of a file that is not there yet; one that is keeps its own. */
  readonly mode?: number;
  /** Makes the names of two writers' temporary files differ. */
  readonly unique: string;
}

/**
 * Puts `text` in the place of a file, whole or not at all: a crash at any moment leaves the old file or the new one. A
 * link is followed, so that it stays one.
 */
export async function replaceTextFile(
  path: string,
  text: string,
  { mode = 0o644, unique }: ReplaceFileOptions,
): Promise<void> {
  const target = await realpath(path).catch(() => path);
  const fileMode = await stat(target).then(
    (stats) => stats.mode & 0o777,
    () => mode,
  );
  const beside = join(dirname(target), `.${basename(target)}.${unique}`);
  const file = await open(beside, "wx", fileMode);
  try {
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    // What a new file is allowed depends on the umask; what the old one was allowed does not.
    await chmod(beside, fileMode);
    await rename(beside, target);
  } catch (thrown) {
    await rm(beside, { force: true });
    throw thrown;
  }
}
