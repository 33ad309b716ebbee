import { stat } from "node:fs/promises";
import { createRequire } from "node:module";
import { resolve as resolvePath } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Worker } from "node:worker_threads";

const CHECK_EVERY_MS = 1_000;
/** In checks, after checkpoints that could not empty the log: a reader may hold it for long. */
const LONGEST_WAIT = 8;
const LOG_LIMIT_BYTES = 4 * 1024 * 1024;
const CLOSE_TRIES = 10;
const LONGEST_PAUSE_MS = 50;

/** Moves the write-ahead log of a store into its file: in a thread when it has grown, and when the store is closed. */
export function createCheckpointer(path: string) {
  let running: Promise<void> | undefined;
  let checks = 0;
  let wait = 1;
  const timer = setInterval(() => {
    if (++checks < wait) return;
    checks = 0;
    running ??= checkpointWhenLarge().finally(() => {
      running = undefined;
    });
  }, CHECK_EVERY_MS).unref();

  const measureLog = async (): Promise<number> => (await stat(`${path}-wal`).catch(() => ({ size: 0 }))).size;

  async function checkpointWhenLarge(): Promise<void> {
    if ((await measureLog()) <= LOG_LIMIT_BYTES) return;
    await checkpointInThread(path);
    wait = (await measureLog()) > LOG_LIMIT_BYTES ? Math.min(2 * wait, LONGEST_WAIT) : 1;
  }

  return {
    /** Leaves the log empty, unless other connections are busy with it: the last one to close empties it. */
    async close(checkpoint: (mode: "passive" | "truncate") => { readonly isBusy: boolean }): Promise<void> {
      clearInterval(timer);
      await running;
      // A process that wrote nothing changes nothing here either.
      if ((await measureLog()) === 0) return;
      for (let tries = 0; tries < CLOSE_TRIES; tries++) {
        // The first one does not make others wait, and leaves little for the second.
        checkpoint("passive");
        if (!checkpoint("truncate").isBusy) return;
        await pause(LONGEST_PAUSE_MS * Math.random());
      }
    },
  };
}

/** A thread of its own each time: one that stays would keep ten megabytes. A failure loses nothing. */
function checkpointInThread(path: string): Promise<void> {
  const sqlite = createRequire(import.meta.url).resolve("@photostructure/sqlite");
  const thread = new Worker(SOURCE, { eval: true, workerData: { path: resolvePath(path), sqlite } });
  return new Promise((resolve) => {
    // Without a listener, an error of the thread would end the process.
    thread.on("error", () => {}).once("exit", () => resolve());
  });
}

// Text, because the command is one bundle and has no file for a thread. `exec` keeps no statement open, so `close` ends
// the connection.
const SOURCE = `
const { workerData } = require("node:worker_threads");
const { DatabaseSync } = require(workerData.sqlite);
const db = new DatabaseSync(workerData.path);
try {
  db.exec("pragma busy_timeout = 100; pragma wal_checkpoint(passive); pragma wal_checkpoint(truncate)");
} finally {
  db.close();
}`;
