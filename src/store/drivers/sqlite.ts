import { setTimeout as pause } from "node:timers/promises";
import { Mutex, yieldToEventLoop } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import { type Dialect, type Sql, type SqlDriver, sql } from "../sql.ts";
import { connectSqlite } from "./sqlite-connection.ts";
import { isLocked, sqliteFailure } from "./sqlite-errors.ts";

export interface SqliteOptions {
  /** How long to wait for another writer of the same file, in milliseconds. */
  readonly lockWaitMs?: number;
}

const dialect: Dialect = { name: "sqlite", identity: sql`integer primary key`, bytes: sql`blob` };

const LONGEST_PAUSE_MS = 50;
const BREATH_MS = 10;

/**
 * Opens the file at `path`, made with its folder when it is not there, or `:memory:`. Several processes may have it
 * open. One connection, so work takes turns: a statement let in during a transaction would share its fate.
 */
export async function openSqlite(path: string, { lockWaitMs = 10_000 }: SqliteOptions = {}): Promise<SqlDriver> {
  const connection = attempt(() => connectSqlite(path));
  /** How long statements have run since others had their turn. */
  let busyMs = 0;
  const outermost = level(0, "the store is closed");
  await patiently(connection.prepareFile).catch((thrown) => {
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
  function level(depth: number, over: string): Sql & { end(): Promise<void> } {
    const mutex = new Mutex();
    let ended = false;
    const whileOpen = <T>(work: () => T): T => {
      if (ended) throw new QmError("store_failed", over);
      return work();
    };
    return {
      all: (query) =>
        mutex.run(async () => {
          await breathe();
          return whileOpen(() => timed(() => (depth === 0 ? patiently : attempt)(() => connection.run(query))));
        }),
      transaction: (work) => mutex.run(() => whileOpen(() => transaction(depth, work))),
      end: () =>
        mutex.run(() => {
          ended = true;
        }),
    };
  }

  // SQLite answers at once, and waiting for an answer lets nobody else in: many statements in a row would stop the process.
  async function breathe(): Promise<void> {
    if (busyMs < BREATH_MS) return;
    busyMs = 0;
    await yieldToEventLoop();
  }

  async function timed<T>(work: () => T | Promise<T>): Promise<T> {
    const started = performance.now();
    try {
      return await work();
    } finally {
      busyMs += performance.now() - started;
    }
  }

  async function transaction<T>(depth: number, work: (inner: Sql) => Promise<T>): Promise<T> {
    const steps = depth === 0 ? outer : nested(depth);
    await patiently(() => connection.exec(steps.begin));
    const inner = level(depth + 1, "the transaction has ended");
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
  async function patiently<T>(work: () => T): Promise<T> {
    const deadline = performance.now() + lockWaitMs;
    for (let longest = 1; ; longest = Math.min(longest * 2, LONGEST_PAUSE_MS)) {
      try {
        return work();
      } catch (thrown) {
        if (!isLocked(thrown) || performance.now() > deadline) throw sqliteFailure(path, thrown);
      }
      await pause(longest * Math.random());
    }
  }

  function attempt<T>(work: () => T): T {
    try {
      return work();
    } catch (thrown) {
      throw sqliteFailure(path, thrown);
    }
  }
}

const outer = { begin: "begin immediate", commit: "commit", rollback: ["rollback"] };

function nested(depth: number): typeof outer {
  const name = `level_${depth}`;
  return {
    begin: `savepoint ${name}`,
    commit: `release ${name}`,
    rollback: [`rollback to ${name}`, `release ${name}`],
  };
}
