import { constants, type Stats } from "node:fs";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { temporaryName } from "./file-root.ts";
import { explainFsErrors } from "./fs-errors.ts";
import { type OpenFolder, statEntry } from "./open-file.ts";

interface FileReplacement {
  readonly bytes: Buffer;
  /** The file before the write. Absent: there was none. */
  readonly before: Stats | undefined;
  readonly onlyIfUnchanged: boolean;
  readonly shown: string;
}

/** Replaces the content of a file atomically: readers see the old or the new content, also after a crash or an error. */
export async function replaceFileContent(folder: OpenFolder, name: string, file: FileReplacement, signal: AbortSignal) {
  const temporary = folder.at(temporaryName());
  await explainFsErrors(file.shown, "write", async () => {
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
    const handle = await open(temporary, flags, file.before === undefined ? 0o666 : 0o600);
    try {
      await writeContent(handle, file);
      if (file.onlyIfUnchanged) await requireUnchanged(folder, name, file);
      signal.throwIfAborted();
      await rename(temporary, folder.at(name));
    } catch (thrown) {
      await rm(temporary, { force: true }).catch(() => undefined);
      throw thrown;
    }
  });
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
    // Only a privileged process may change the owner. For others the new file is theirs, as with any editor.
    await handle.chown(before.uid, before.gid).catch(() => undefined);
  }
  // Without setuid, setgid and sticky: new content must not get the rights of the old.
  await handle.chmod(before.mode & 0o777);
}

async function requireUnchanged(folder: OpenFolder, name: string, { before, shown }: FileReplacement): Promise<void> {
  const now = await statEntry(folder, name, shown);
  const isSame = (["ino", "size", "mtimeMs", "ctimeMs"] as const).every((key) => now?.[key] === before?.[key]);
  if (isSame) return;
  throw new QmError("conflict", `${quoteName(shown)} was changed by another program; nothing was written`, {
    hint: "Read it again and repeat the change.",
  });
}
