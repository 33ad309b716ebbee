import { messageOf, QmError } from "../../core/errors.ts";
import { getOwn, isRecord } from "../../core/json.ts";

// Result codes of SQLite, https://sqlite.org/rescode.html: the low byte is the kind, the rest a closer description.
const PERM = 3;
const BUSY = 5;
const LOCKED = 6;
const READONLY = 8;
const IOERR = 10;
const CORRUPT = 11;
const FULL = 13;
const CANTOPEN = 14;
const CONSTRAINT = 19;
const NOTADB = 26;

export function isLocked(thrown: unknown): boolean {
  const kind = kindOf(thrown);
  return kind === BUSY || kind === LOCKED;
}

/** What SQLite or the file system threw, in words that say what to do; the original is the cause. */
export function sqliteFailure(path: string, thrown: unknown): QmError {
  if (thrown instanceof QmError) return thrown;
  const kind = kindOf(thrown);
  if (kind === CONSTRAINT) return new QmError("conflict", messageOf(thrown), { cause: thrown });
  const known = (kind === undefined ? undefined : explanations[kind]) ?? fileExplanation(thrown);
  if (known === undefined)
    return new QmError("store_failed", `the store ${path} failed: ${messageOf(thrown)}`, { cause: thrown });
  return new QmError("store_failed", `the store ${path} ${known.what}`, { cause: thrown, hint: known.hint });
}

interface Explanation {
  readonly what: string;
  readonly hint: string;
}

const locked = {
  what: "is locked by another process for too long",
  hint: "Find out which process holds it open (fuser, lsof) and end it, or try again.",
};
const forbidden = {
  what: "cannot be opened for writing",
  hint: "Its folder must exist or be creatable, and the folder and the file must be writable for this user.",
};
const full = { what: "cannot grow: the disk is full", hint: "Free some space and try again; nothing was written." };

const explanations: { readonly [kind: number]: Explanation } = {
  [PERM]: forbidden,
  [BUSY]: locked,
  [LOCKED]: locked,
  [READONLY]: forbidden,
  [IOERR]: { what: "cannot be read or written", hint: "The disk reports an error; look at the system's log." },
  [CORRUPT]: {
    what: "is damaged",
    hint: "Restore it from a backup, or save what is left with `sqlite3 <file> .recover`.",
  },
  [FULL]: full,
  [CANTOPEN]: forbidden,
  [NOTADB]: {
    what: "is not a SQLite database",
    hint: "Give the path of a store, or of a file that does not exist yet.",
  },
};

const fileExplanations: { readonly [code: string]: Explanation } = {
  EACCES: forbidden,
  EPERM: forbidden,
  EROFS: forbidden,
  EISDIR: { what: "is a folder", hint: "Give the path of a file." },
  ENOENT: forbidden,
  ENOTDIR: { what: "lies below something that is not a folder", hint: "Give a path whose parents are folders." },
  EEXIST: { what: "lies below something that is not a folder", hint: "Give a path whose parents are folders." },
  ENOSPC: full,
};

function kindOf(thrown: unknown): number | undefined {
  return isRecord(thrown) && typeof thrown.errcode === "number" ? thrown.errcode & 0xff : undefined;
}

function fileExplanation(thrown: unknown): Explanation | undefined {
  return isRecord(thrown) && typeof thrown.code === "string" ? getOwn(fileExplanations, thrown.code) : undefined;
}
