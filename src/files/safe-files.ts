import { randomBytes } from "node:crypto";
import { chmodSync, constants, existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { chmod, copyFile, link, open, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** The default folder for the store, secrets, tokens and keys. */
export const STATE_FOLDER = ".quartermaster";

/** Creates a folder and its parents with mode 0700. Of existing folders, only `.quartermaster` is changed. */
export function createPrivateFolder(path: string): void {
  if (!existsSync(path)) createFolder(path);
  if (basename(path) === STATE_FOLDER) protectStateFolder(path);
}

function createFolder(path: string): void {
  // One folder at a time: below /proc, a recursive mkdir never returns.
  createPrivateFolder(dirname(path));
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (thrown) {
    if (!existsSync(path)) throw thrown;
  }
}

/** Makes the folder private and keeps git from committing secrets. Never changes an existing `.gitignore`. */
function protectStateFolder(path: string): void {
  try {
    if ((statSync(path).mode & 0o077) !== 0) chmodSync(path, 0o700);
    const ignored = join(path, ".gitignore");
    if (!existsSync(ignored)) writeFileSync(ignored, "*\n", { flag: "wx" });
  } catch {
    // The folder belongs to another user, or the file system has no modes. The files in it are private anyway.
  }
}

/** Creates a file with mode 0600 atomically. Does nothing if it exists, even if another process has just created it. */
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

/** The time in the name of a backup: `20260102T030405Z`. */
export const formatBackupTime = (at: Date): string => at.toISOString().replaceAll(/[-:]|\.\d+/g, "");

/** Copies a file to `<path>.bak-<time>` with its permissions. Never overwrites another copy. Returns the path. */
export async function backUpFile(path: string, now: Date, label = "bak"): Promise<string> {
  for (let second = 0; ; second++) {
    const at = new Date(now.getTime() + second * 1000);
    const backup = `${path}.${label}-${formatBackupTime(at)}`;
    try {
      await copyFile(path, backup, constants.COPYFILE_EXCL);
      // copyFile also copies setuid and setgid, which a backup must not have.
      await chmod(backup, (await stat(backup)).mode & 0o777);
      return backup;
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== "EEXIST" || second === 60) throw thrown;
    }
  }
}

/**
 * Replaces a file atomically: a crash leaves the old file or the new one. Follows a link, so that it stays one. `mode` is
 * for a new file; an existing file keeps its own. `unique` keeps the temporary files of two writers apart.
 */
export async function replaceTextFile(
  path: string,
  text: string,
  { mode = 0o644, unique }: { readonly mode?: number; readonly unique: string },
): Promise<void> {
  const target = await realpath(path).catch(() => path);
  const fileMode = await stat(target).then(
    (stats) => stats.mode & 0o777,
    () => mode,
  );
  const beside = join(dirname(target), `.${basename(target)}.${unique}`);
  const file = await open(beside, "wx", fileMode);
  try {
    await file
      .writeFile(text)
      .then(() => file.sync())
      .finally(() => file.close());
    // The umask applied to `open`, but the old file's mode must stay.
    await chmod(beside, fileMode);
    await rename(beside, target);
  } catch (thrown) {
    await rm(beside, { force: true });
    throw thrown;
  }
}
