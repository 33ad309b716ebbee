import { messageOf, QmError } from "../../core/errors.ts";
import { getOwn, isRecord } from "../../core/json.ts";

interface Explanation {
  readonly what: string;
  readonly hint: string;
}

const locked: Explanation = {
  what: "is locked by another process for too long",
  hint: "Find out which process holds it (fuser, lsof) and end it, or try again.",
};
const forbidden: Explanation = {
  what: "cannot be opened for writing",
  hint: "Its folder must exist or be creatable, and the folder and the file must be writable for this user.",
};
const full: Explanation = {
  what: "cannot grow: the disk is full",
  hint: "Free some space and try again; nothing was written.",
};
const belowFile: Explanation = {
  what: "lies below something that is not a folder",
  hint: "Give a path whose parents are folders.",
};

// By SQLite's messages, which have not changed in decades: this driver loses the code of an error while rows are read.
const sqliteErrors: readonly (readonly [message: string, Explanation])[] = [
  ["database is locked", locked],
  ["table is locked", locked],
  ["disk is full", full],
  ["readonly database", forbidden],
  ["access permission denied", forbidden],
  ["unable to open database file", forbidden],
  ["disk I/O error", { what: "cannot be read or written", hint: "The disk reports an error; see the system's log." }],
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

export function isLocked(thrown: unknown): boolean {
  return explanationOf(thrown) === locked;
}

/** What SQLite or the file system threw, in words that say what to do; the original is the cause. */
export function sqliteFailure(path: string, thrown: unknown): QmError {
  if (thrown instanceof QmError) return thrown;
  const message = messageOf(thrown);
  if (message.includes("constraint failed")) return new QmError("conflict", message, { cause: thrown });
  const known = explanationOf(thrown);
  return known === undefined
    ? new QmError("store_failed", `the store ${path} failed: ${message}`, { cause: thrown })
    : new QmError("store_failed", `the store ${path} ${known.what}`, {
        cause: thrown,
        hint: known.hint,
        ...(known === full ? { details: { full: true } } : {}),
      });
}

function explanationOf(thrown: unknown): Explanation | undefined {
  if (!isRecord(thrown) || typeof thrown.code !== "string") return undefined;
  if (thrown.code !== "ERR_SQLITE_ERROR") return getOwn(fileErrors, thrown.code);
  const message = messageOf(thrown);
  return sqliteErrors.find(([text]) => message.includes(text))?.[1];
}
