import { constants, type Stats } from "node:fs";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { temporaryName } from "./file-root.ts";
import { explainFsError } from "./fs-errors.ts";
import type { OpenFolder } from "./open-file.ts";
import { statEntry } from "./open-file.ts";

export interface FileReplacement {
  readonly bytes: Buffer;
  /** The file as it was when the new content was made from it. Absent: there was none. */
  readonly before: Stats | undefined;
  /** Whether the new content depends on `before`, so that a file changed since then must not be overwritten. */
  readonly onlyIfUnchanged: boolean;
  /** The path as answers show it. */
  readonly shown: string;
}

/**
 * Puts new content in place of a file in one step: whoever reads sees the old or the new, also after a crash. When it
 * throws, the old file is as it was and nothing is left beside it.
 */
export async function replaceFileContent(
  folder: OpenFolder,
  name: string,
  wanted: FileReplacement,
  signal: AbortSignal,
): Promise<void> {
  const temporary = folder.at(temporaryName());
  try {
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
    const handle = await open(temporary, flags, wanted.before === undefined ? 0o666 : 0o600);
    try {
      await writeContent(handle, wanted);
      if (wanted.onlyIfUnchanged) await requireUnchanged(folder, name, wanted);
      signal.throwIfAborted();
      await rename(temporary, folder.at(name));
    } catch (thrown) {
      await rm(temporary, { force: true }).catch(() => undefined);
      throw thrown;
    }
  } catch (thrown) {
    throw explainFsError(thrown, wanted.shown, "write");
  }
  await folder.sync();
}

async function writeContent(handle: FileHandle, { bytes, before }: FileReplacement): Promise<void> {
  try {
    await handle.writeFile(bytes);
    if (before !== undefined) await copyOwnerAndMode(handle, before);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function copyOwnerAndMode(handle: FileHandle, before: Stats): Promise<void> {
  const now = await handle.stat();
  if (now.uid !== before.uid || now.gid !== before.gid) {
    // Only a privileged process may give files away; for others the new file is theirs, as with any editor.
    await handle.chown(before.uid, before.gid).catch(() => undefined);
  }
  // Never setuid, setgid or sticky: new content must not run with the rights that were given to the old.
  await handle.chmod(before.mode & 0o777);
}

async function requireUnchanged(folder: OpenFolder, name: string, { before, shown }: FileReplacement): Promise<void> {
  const now = await statEntry(folder, name, shown);
  const isSame =
    now === undefined || before === undefined
      ? now === before
      : now.ino === before.ino &&
        now.size === before.size &&
        now.mtimeMs === before.mtimeMs &&
        now.ctimeMs === before.ctimeMs;
  if (!isSame) {
    throw new QmError("conflict", `${quoteName(shown)} was changed by somebody else meanwhile; nothing was written`, {
      hint: "Read it again and repeat the change.",
    });
  }
}
