import { existsSync } from "node:fs";
import { constants, copyFile, link, open, rename, rm } from "node:fs/promises";
import { backup, DatabaseSync, type DatabaseSyncInstance } from "@photostructure/sqlite";
import { QmError } from "../../core/errors.ts";
import { isLockedError, toStoreError } from "./sqlite-errors.ts";

const PAGES_AT_ONCE = 1_000;

export type CopyProgress = { readonly done: number; readonly total: number };

/** Copies a database to the new file `to` as it is now, while other processes write, and checks every page of the copy. */
export async function copySqliteFile(
  from: string,
  to: string,
  onProgress: (progress: CopyProgress) => void,
): Promise<void> {
  await withConnection(from, { readOnly: true }, async (source) => {
    // Without a transaction, the copy would start again whenever another process writes.
    source.exec("begin; select count(*) from sqlite_master");
    await (await open(to, "wx", 0o600)).close();
    await backup(source, to, {
      rate: PAGES_AT_ONCE,
      progress: ({ totalPages, remainingPages }) =>
        onProgress({ done: totalPages - remainingPages, total: totalPages }),
    });
  });
  await withConnection(to, {}, (copy) => {
    // One file, without a log beside it.
    copy.exec("pragma journal_mode = delete");
    const problems = copy.prepare("pragma integrity_check").all();
    if (problems.length === 1 && problems[0]?.integrity_check === "ok") return;
    throw new QmError("store_failed", `${from} is damaged: ${String(problems[0]?.integrity_check)}`, {
      hint: "Use another backup, or save what is left with `sqlite3 <file> .recover`.",
    });
  });
}

/** Whether the database has all of these tables. */
export function hasTables(path: string, tables: readonly string[]): Promise<boolean> {
  return withConnection(path, { readOnly: true }, (db) => {
    const rows = db.prepare("select name from sqlite_master where type = 'table'").all();
    return tables.every((table) => rows.some(({ name }) => name === table));
  });
}

/**
 * Replaces the database at `path` by the file `by`. The former one stays as `kept`, which is undefined if there is none. A
 * crash leaves the former or the new one. Throws `conflict` and changes nothing while another process uses the database.
 */
export async function replaceSqliteFile(path: string, by: string, kept: string | undefined): Promise<void> {
  if (kept === undefined) return rename(by, path);
  const present = new DatabaseSync(path);
  try {
    try {
      // Fails while there is another connection. Until `close`, none can be opened, and there is no log.
      present.exec("pragma journal_mode = delete; begin exclusive");
    } catch (thrown) {
      if (isLockedError(thrown)) throw createInUseError(path);
      // The database is damaged. Its log must not be applied to the new file.
      if (existsSync(`${path}-wal`)) await rename(`${path}-wal`, `${kept}-wal`);
    }
    // A copy where the file system has no links.
    await link(path, kept).catch(() => copyFile(path, kept, constants.COPYFILE_EXCL));
    await rename(by, path);
    await rm(`${path}-shm`, { force: true });
  } finally {
    present.close();
  }
}

function createInUseError(path: string): QmError {
  return new QmError("conflict", `another process uses ${path}`, {
    hint: "End {qm serve}, {qm mcp}, the MCP clients that started it, and every program with this store. Then try again.",
  });
}

/** Statements that stay open would keep the connection open, so only connections to private copies prepare any. */
async function withConnection<T>(
  path: string,
  options: { readonly readOnly?: boolean },
  work: (db: DatabaseSyncInstance) => T | Promise<T>,
): Promise<T> {
  let db: DatabaseSyncInstance | undefined;
  try {
    db = new DatabaseSync(path, options);
    return await work(db);
  } catch (thrown) {
    throw toStoreError(path, thrown);
  } finally {
    db?.close();
  }
}
