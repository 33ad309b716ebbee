import { chmod, open, realpath, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

export interface ReplaceOptions {
  /** Of a file that is not there yet; one that is keeps its own. */
  readonly mode?: number;
  /** Makes the names of two writers' temporary files differ. */
  readonly unique: string;
}

/**
 * Puts `text` in the place of a file, whole or not at all: a crash at any moment leaves the old file or the new one. A
 * link is followed, so that it stays one.
 */
export async function replaceFile(path: string, text: string, { mode = 0o644, unique }: ReplaceOptions): Promise<void> {
  const target = await realpath(path).catch(() => path);
  const kept = await stat(target).then(
    (stats) => stats.mode & 0o777,
    () => mode,
  );
  const beside = join(dirname(target), `.${basename(target)}.${unique}`);
  const file = await open(beside, "wx", kept);
  try {
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    // What a new file is allowed depends on the umask; what the old one was allowed does not.
    await chmod(beside, kept);
    await rename(beside, target);
  } catch (thrown) {
    await rm(beside, { force: true });
    throw thrown;
  }
}
