import { closeSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { DatabaseSync, type StatementSyncInstance } from "@photostructure/sqlite";
import { Mutex, yieldToEventLoop } from "../../core/async.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { getOwn, isRecord } from "../../core/json.ts";
import { createPrivateFolder } from "../../files/safe-files.ts";
import { type Sql, type SqlDialect, type SqlDriver, type SqlQuery, type SqlRow, type SqlValue, sql } from "../sql.ts";

/** One open database file, as synchronous as SQLite is. Throws what SQLite or the file system throws. */
interface SqliteConnection {
  /** Settings that are written to the file or need a lock on it. May find it locked; can be tried again. */
  prepareFile(): void;
  run(query: SqlQuery): readonly SqlRow[];
  /** One statement that answers nothing. */
  exec(text: string): void;
  inTransaction(): boolean;
  close(): void;
}

const STATEMENT_LIMIT = 256;
const BUSY_TIMEOUT_MS = 5;

function connectSqlite(path: string): SqliteConnection {
  if (path !== ":memory:") createFile(path);
  const db = new DatabaseSync(path);
  db.exec(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}`);
  const statements = new Map<string, StatementSyncInstance>();

  function prepareStatement(text: string): StatementSyncInstance {
    const known = statements.get(text);
    if (known !== undefined) return known;
    const made = db.prepare(text);
    if (statements.size === STATEMENT_LIMIT) statements.clear();
    statements.set(text, made);
    return made;
  }

  return {
    // The same few pages take every new line: moving them to the file less often is most of what can be saved.
    prepareFile: () =>
      db.exec(
        "pragma journal_mode = wal; pragma synchronous = normal; pragma wal_autocheckpoint = 4000; pragma foreign_keys = on",
      ),
    run: (query) => prepareStatement(query.parts.join("?")).all(...query.values.map(toBoundValue)),
    exec: (text) => void prepareStatement(text).run(),
    inTransaction: () => db.isTransaction,
    close() {
      if (db.isOpen) db.close();
    },
  };
}

// SQLite would make it readable for everybody; its helper files take over the mode of this one.
function createFile(path: string): void {
  createPrivateFolder(dirname(path));
  closeSync(openSync(path, "a", 0o600));
}

/** Refuses what SQLite would keep as something else: NaN as NULL, text only up to its first NUL. */
function toBoundValue(value: SqlValue | undefined, at: number): string | number | bigint | null | Uint8Array {
  if (typeof value === "boolean") return value ? 1 : 0;
  const unfit =
    value === undefined ||
    (typeof value === "number" && !Number.isFinite(value)) ||
    (typeof value === "string" && value.includes("\0"));
  if (!unfit) return value;
  const what = typeof value === "string" ? "text with a NUL character" : String(value);
  throw new QmError("internal", `value ${at + 1} of a statement is ${what}, which no store can keep`);
}

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

function isLocked(thrown: unknown): boolean {
  return explainSqliteError(thrown) === locked;
}

/** What SQLite or the file system threw, in words that say what to do; the original is the cause. */
function toStoreError(path: string, thrown: unknown): QmError {
  if (thrown instanceof QmError) return thrown;
  const message = getErrorMessage(thrown);
  if (message.includes("constraint failed")) return new QmError("conflict", message, { cause: thrown });
  const known = explainSqliteError(thrown);
  return known === undefined
    ? new QmError("store_failed", `the store ${path} failed: ${message}`, { cause: thrown })
    : new QmError("store_failed", `the store ${path} ${known.what}`, {
        cause: thrown,
        hint: known.hint,
        ...(known === full ? { details: { full: true } } : {}),
      });
}

function explainSqliteError(thrown: unknown): Explanation | undefined {
  if (!isRecord(thrown) || typeof thrown.code !== "string") return undefined;
  if (thrown.code !== "ERR_SQLITE_ERROR") return getOwn(fileErrors, thrown.code);
  const message = getErrorMessage(thrown);
  return sqliteErrors.find(([text]) => message.includes(text))?.[1];
}

export interface SqliteOptions {
  /** How long to wait for another writer of the same file, in milliseconds. */
  readonly lockWaitMs?: number;
}

const dialect: SqlDialect = { name: "sqlite", identity: sql`integer primary key`, bytes: sql`blob` };

const LONGEST_PAUSE_MS = 50;
const YIELD_AFTER_MS = 10;

/**
 * Opens the file at `path`, made with its folder when it is not there, or `:memory:`. Several processes may have it
 * open. One connection, so work takes turns: a statement let in during a transaction would share its fate.
 */
export async function openSqlite(path: string, { lockWaitMs = 10_000 }: SqliteOptions = {}): Promise<SqlDriver> {
  const connection = attempt(() => connectSqlite(path));
  /** How long statements have run since others had their turn. */
  let busyMs = 0;
  const outermost = openLevel(0, "the store is closed");
  await retryWhileLocked(connection.prepareFile).catch((thrown) => {
    connection.close();
    throw thrown;
  });
  return {
    dialect,
    all: outermost.all,
    transaction: outermost.transaction,
    async close() {
      await outermost.end();
      attempt(connection.close);
    },
  };

  /** What can be asked while `depth` transactions are open, one at a time and until it ends. */
  function openLevel(depth: number, over: string): Sql & { end(): Promise<void> } {
    const mutex = new Mutex();
    let ended = false;
    const whileOpen = <T>(work: () => T): T => {
      if (ended) throw new QmError("store_failed", over);
      return work();
    };
    return {
      all: (query) =>
        mutex.run(async () => {
          await yieldWhenBusy();
          return whileOpen(() =>
            trackBusyTime(() => (depth === 0 ? retryWhileLocked : attempt)(() => connection.run(query))),
          );
        }),
      transaction: (work) => mutex.run(() => whileOpen(() => transaction(depth, work))),
      end: () =>
        mutex.run(() => {
          ended = true;
        }),
    };
  }

  // SQLite answers at once, and waiting for an answer lets nobody else in: many statements in a row would stop the process.
  async function yieldWhenBusy(): Promise<void> {
    if (busyMs < YIELD_AFTER_MS) return;
    busyMs = 0;
    await yieldToEventLoop();
  }

  async function trackBusyTime<T>(work: () => T | Promise<T>): Promise<T> {
    const started = performance.now();
    try {
      return await work();
    } finally {
      busyMs += performance.now() - started;
    }
  }

  async function transaction<T>(depth: number, work: (inner: Sql) => Promise<T>): Promise<T> {
    const steps = depth === 0 ? outer : createSavepointSteps(depth);
    await retryWhileLocked(() => connection.exec(steps.begin));
    const inner = openLevel(depth + 1, "the transaction has ended");
    try {
      const result = await work(inner);
      await inner.end();
      attempt(() => connection.exec(steps.commit));
      return result;
    } catch (thrown) {
      await inner.end();
      // A full disk makes SQLite roll back on its own.
      if (connection.inTransaction()) for (const step of steps.rollback) attempt(() => connection.exec(step));
      throw thrown;
    }
  }

  // SQLite's own waiting blocks the thread, and with it any other connection of this process that holds the lock.
  async function retryWhileLocked<T>(work: () => T): Promise<T> {
    const deadline = performance.now() + lockWaitMs;
    for (let longest = 1; ; longest = Math.min(longest * 2, LONGEST_PAUSE_MS)) {
      try {
        return work();
      } catch (thrown) {
        if (!isLocked(thrown) || performance.now() > deadline) throw toStoreError(path, thrown);
      }
      await pause(longest * Math.random());
    }
  }

  function attempt<T>(work: () => T): T {
    try {
      return work();
    } catch (thrown) {
      throw toStoreError(path, thrown);
    }
  }
}

const outer = { begin: "begin immediate", commit: "commit", rollback: ["rollback"] };

function createSavepointSteps(depth: number): typeof outer {
  const name = `level_${depth}`;
  return {
    begin: `savepoint ${name}`,
    commit: `release ${name}`,
    rollback: [`rollback to ${name}`, `release ${name}`],
  };
}
