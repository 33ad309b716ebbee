import { closeSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { DatabaseSync, type StatementSyncInstance } from "@photostructure/sqlite";
import { Mutex, yieldToEventLoop } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import { LruMap } from "../../core/lru-map.ts";
import { createPrivateFolder } from "../../files/safe-files.ts";
import { type Sql, type SqlDialect, type SqlDriver, type SqlQuery, type SqlRow, type SqlValue, sql } from "../sql.ts";
import { createCheckpointer } from "./sqlite-checkpoint.ts";
import { isLockedError, toStoreError } from "./sqlite-errors.ts";

export interface SqliteOptions {
  /** How long to wait for another writer of the file, in milliseconds. */
  readonly lockWaitMs?: number;
  /** `false`: a file without a write-ahead log, for a copy that one process checks. Default: true. */
  readonly wal?: boolean;
}

const dialect: SqlDialect = { name: "sqlite", identity: sql`integer primary key`, bytes: sql`blob` };
const LONGEST_PAUSE_MS = 50;
const YIELD_AFTER_MS = 10;

/** Opens or creates `path` or `:memory:`. A statement from outside waits for an open transaction. */
export async function openSqlite(
  path: string,
  { lockWaitMs = 10_000, wal = true }: SqliteOptions = {},
): Promise<SqlDriver> {
  const connection = attempt(() => connectSqlite(path));
  /** How long statements have run since the last yield to the event loop. */
  let busyMs = 0;
  const outermost = openLevel(0, "the store is closed");
  try {
    await retryWhileLocked(() => connection.prepareFile(wal));
  } catch (thrown) {
    connection.close();
    throw thrown;
  }
  const checkpointer = wal && path !== ":memory:" ? createCheckpointer(path) : undefined;
  return {
    dialect,
    all: outermost.all,
    transaction: outermost.transaction,
    async close() {
      await outermost.end();
      await checkpointer?.close(connection.checkpoint);
      attempt(connection.close);
    },
  };

  /** Runs statements one at a time while `depth` transactions are open, until `end`. */
  function openLevel(depth: number, endedMessage: string): Sql & { end(): Promise<void> } {
    const mutex = new Mutex();
    let ended = false;
    const whileOpen = <T>(work: () => T): T => {
      if (ended) throw new QmError("store_failed", endedMessage);
      return work();
    };
    const run = (query: SqlQuery): readonly SqlRow[] | Promise<readonly SqlRow[]> =>
      whileOpen(() => (depth === 0 ? retryWhileLocked : attempt)(() => runTimed(query)));
    return {
      all: (query) => mutex.run(() => (busyMs < YIELD_AFTER_MS ? run(query) : yieldWhenBusy().then(() => run(query)))),
      transaction: (work) => mutex.run(() => whileOpen(() => transaction(depth, work))),
      end: () =>
        mutex.run(() => {
          ended = true;
        }),
    };
  }

  // SQLite is synchronous: without a yield, many statements in a row would block the process.
  function yieldWhenBusy(): Promise<void> {
    busyMs = 0;
    return yieldToEventLoop();
  }

  function runTimed(query: SqlQuery): readonly SqlRow[] {
    const started = performance.now();
    try {
      return connection.run(query);
    } finally {
      busyMs += performance.now() - started;
    }
  }

  async function transaction<T>(depth: number, work: (inner: Sql) => Promise<T>): Promise<T> {
    const steps = depth === 0 ? outer : createSavepointSteps(depth);
    const begun = retryWhileLocked(() => connection.exec(steps.begin));
    if (begun !== undefined) await begun;
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

  // SQLite's own waiting blocks the thread, and with it a connection of this process that holds the lock.
  function retryWhileLocked<T>(work: () => T): T | Promise<T> {
    try {
      return work();
    } catch (thrown) {
      if (!isLockedError(thrown)) throw toStoreError(path, thrown);
      return retryLater(work);
    }
  }

  async function retryLater<T>(work: () => T): Promise<T> {
    const deadline = performance.now() + lockWaitMs;
    for (let longest = 1; ; longest = Math.min(longest * 2, LONGEST_PAUSE_MS)) {
      await pause(longest * Math.random());
      try {
        return work();
      } catch (thrown) {
        if (!isLockedError(thrown) || performance.now() > deadline) throw toStoreError(path, thrown);
      }
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

const outer = { begin: sql`begin immediate`, commit: sql`commit`, rollback: [sql`rollback`] };

function createSavepointSteps(depth: number): typeof outer {
  const name = `level_${depth}`;
  const toQuery = (text: string): SqlQuery => ({ parts: [text], values: [] });
  return {
    begin: toQuery(`savepoint ${name}`),
    commit: toQuery(`release ${name}`),
    rollback: [toQuery(`rollback to ${name}`), toQuery(`release ${name}`)],
  };
}

const STATEMENT_LIMIT = 256;
/** A commit moves the log into the file only if the checkpointer falls far behind: it would wait for the disk. */
const AUTOCHECKPOINT_PAGES = 16_000;

/** One open database file. Throws the errors of SQLite and of the file system. */
function connectSqlite(path: string) {
  if (path !== ":memory:") {
    createPrivateFolder(dirname(path));
    createPrivateFile(path);
  }
  const db = new DatabaseSync(path);
  db.exec("pragma busy_timeout = 5");
  const statements = new LruMap<string, StatementSyncInstance>(STATEMENT_LIMIT);
  const statementsByParts = new WeakMap<readonly string[], StatementSyncInstance>();

  /** Frozen parts, such as those of a template, are found again by their identity, which is cheaper than by their text. */
  function findStatement({ parts }: SqlQuery): StatementSyncInstance {
    const known = statementsByParts.get(parts);
    if (known !== undefined) return known;
    const statement = prepareStatement(parts.join("?"));
    if (Object.isFrozen(parts)) statementsByParts.set(parts, statement);
    return statement;
  }

  function prepareStatement(text: string): StatementSyncInstance {
    let statement = statements.get(text);
    if (statement === undefined) {
      statement = db.prepare(text);
      statements.set(text, statement);
    }
    return statement;
  }

  return {
    /** Writes settings to the file. Can be retried if the file is locked. */
    prepareFile: (wal: boolean) =>
      db.exec(`
        pragma journal_mode = ${wal ? "wal" : "delete"}; pragma synchronous = normal;
        pragma wal_autocheckpoint = ${AUTOCHECKPOINT_PAGES}; pragma foreign_keys = on`),
    run: (query: SqlQuery): readonly SqlRow[] => findStatement(query).all(...query.values.map(toBoundValue)),
    exec: (query: SqlQuery) => void findStatement(query).run(),
    inTransaction: () => db.isTransaction,
    /** Never throws: what stays in the log is read from there, by any later connection. */
    checkpoint(mode: "passive" | "truncate"): { readonly isBusy: boolean } {
      try {
        return { isBusy: prepareStatement(`pragma wal_checkpoint(${mode})`).get()?.busy === 1 };
      } catch {
        return { isBusy: false };
      }
    },
    close() {
      if (db.isOpen) db.close();
    },
  };
}

/** SQLite would make the file readable for everyone. Its helper files get the mode of this one. */
function createPrivateFile(path: string): void {
  // An existing file is not opened: closing it would drop the locks of other connections of this process.
  if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) closeSync(openSync(path, "a", 0o600));
}

/** Refuses values that SQLite would change: it stores NaN as NULL, and text only up to its first NUL. */
function toBoundValue(value: SqlValue | undefined, at: number): string | number | bigint | null | Uint8Array {
  if (typeof value === "boolean") return value ? 1 : 0;
  const unfit =
    value === undefined ||
    (typeof value === "number" && !Number.isFinite(value)) ||
    (typeof value === "string" && value.includes("\0"));
  if (!unfit) return value;
  const what = typeof value === "string" ? "text with a NUL character" : String(value);
  throw new QmError("internal", `value ${at + 1} of a statement is ${what}, which the store cannot hold`);
}
