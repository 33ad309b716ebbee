import { getErrorMessage, QmError } from "../../core/errors.ts";
import { getOwn, isRecord } from "../../core/json.ts";

type Explanation = { readonly what: string; readonly hint: string };

const locked: Explanation = {
  what: "has been locked by another process for too long",
  hint: "Find the process that holds it (fuser, lsof) and end it, or try again.",
};
const forbidden: Explanation = {
  what: "cannot be opened for writing",
  hint: "Make sure that this user can create the folder, or write to the folder and the file.",
};
const full: Explanation = {
  what: "cannot grow: the disk is full",
  hint: "Free some space and try again. Nothing was written.",
};
const belowFile: Explanation = {
  what: "is below a path that is not a folder",
  hint: "Give a path whose parents are folders.",
};

// Matched by message, because this driver loses the error code while rows are read. The messages are stable.
const sqliteErrors: readonly (readonly [message: string, Explanation])[] = [
  ["database is locked", locked],
  ["table is locked", locked],
  ["disk is full", full],
  ["readonly database", forbidden],
  ["access permission denied", forbidden],
  ["unable to open database file", forbidden],
  ["disk I/O error", { what: "cannot be read or written", hint: "The disk reports an error. See the system log." }],
  [
    "disk image is malformed",
    { what: "is damaged", hint: "Restore it from a backup, or save what is left with `sqlite3 <file> .recover`." },
  ],
  [
    "file is not a database",
    { what: "is not a SQLite database", hint: "Give the path of a store, or of a file that does not exist yet." },
  ],
];

const fileErrors: { readonly [code: string]: Explanation } = {
  EACCES: forbidden,
  EPERM: forbidden,
  EROFS: forbidden,
  ENOENT: forbidden,
  EISDIR: { what: "is a folder", hint: "Give the path of a file." },
  ENOTDIR: belowFile,
  EEXIST: belowFile,
  ENOSPC: full,
};

/** Whether another connection holds the file. */
export const isLockedError = (thrown: unknown): boolean => explainSqliteError(thrown) === locked;

/** Explains an error of SQLite or the file system and how to fix it. */
export function toStoreError(path: string, thrown: unknown): QmError {
  if (thrown instanceof QmError) return thrown;
  const message = getErrorMessage(thrown);
  if (message.includes("constraint failed")) return new QmError("conflict", message, { cause: thrown });
  const known = explainSqliteError(thrown);
  if (known === undefined) {
    return new QmError("store_failed", `the store ${path} failed: ${message}`, { cause: thrown });
  }
  const { what, hint } = known;
  const details = known === full ? { details: { full: true } } : {};
  return new QmError("store_failed", `the store ${path} ${what}`, { cause: thrown, hint, ...details });
}

function explainSqliteError(thrown: unknown): Explanation | undefined {
  if (!isRecord(thrown) || typeof thrown.code !== "string") return undefined;
  if (thrown.code !== "ERR_SQLITE_ERROR") return getOwn(fileErrors, thrown.code);
  const message = getErrorMessage(thrown);
  return sqliteErrors.find(([text]) => message.includes(text))?.[1];
}
