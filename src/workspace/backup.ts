import { existsSync, realpathSync } from "node:fs";
import { link, rename, rm } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { systemRuntime } from "../app/system-runtime.ts";
import { QmError } from "../core/errors.ts";
import { createPrivateFolder, formatBackupTime } from "../files/safe-files.ts";
import { type CopyProgress, replaceSqliteFile } from "../store/drivers/sqlite-copy.ts";
import { copyStore, recordRestore, type StoreCopy } from "../store/store-copy.ts";

export interface BackupOptions {
  readonly storePath: string;
  /** The file of the backup. */
  readonly file: string;
  readonly onProgress: (progress: CopyProgress) => void;
}

/** Copies the store to a private file while other processes use it. Throws `EEXIST` if the file exists, without `force`. */
export async function backUpStore({ storePath, file, force, ...options }: BackupOptions & { readonly force: boolean }) {
  if (!existsSync(storePath)) throw new QmError("not_found", `there is no store at ${storePath} yet`);
  const written = `${file}.${systemRuntime.newId()}`;
  const copied = await copyStore(storePath, written, { now: systemRuntime.now, ...options });
  try {
    if (force) await rename(written, file);
    else await link(written, file);
  } finally {
    await rm(written, { force: true });
  }
  return copied;
}

export type RestoredStore = StoreCopy & { readonly expired: number; readonly kept?: string };

/**
 * Replaces the store by a backup, after checking it. A crash leaves the old store or the new one. Throws `store_failed` if
 * the backup is not intact, and `conflict` while another process uses the store.
 */
export async function restoreStore({ storePath, file, ...options }: BackupOptions): Promise<RestoredStore> {
  const path = existsSync(storePath) ? realpathSync.native(storePath) : storePath;
  if (!existsSync(file)) throw new QmError("not_found", `there is no file ${file}`);
  createPrivateFolder(dirname(path));
  const { now, newId } = systemRuntime;
  const written = `${path}.${newId()}`;
  let expired = 0;
  const copied = await copyStore(file, written, {
    now,
    ...options,
    change: async (copy) => {
      expired = await recordRestore(copy, now(), basename(file));
    },
  });
  try {
    const [broken] = copied.broken;
    if (broken !== undefined) {
      const message = `the ledger in ${file} is broken: ${broken.message} (session ${broken.session})`;
      throw new QmError("store_failed", message, { hint: "Use another backup." });
    }
    const kept = existsSync(path) ? findFreeName(path, now()) : undefined;
    await replaceSqliteFile(path, written, kept);
    return { ...copied, expired, ...(kept === undefined ? {} : { kept }) };
  } finally {
    await rm(written, { force: true });
  }
}

/** The name for the former store. A restore within the same second, or one that was killed, may have taken the first. */
function findFreeName(path: string, at: Date): string {
  const name = `${path}.bak-${formatBackupTime(at)}`;
  return existsSync(name) ? findFreeName(path, new Date(at.getTime() + 1_000)) : name;
}
