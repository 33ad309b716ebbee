/** The process around `main`. No other file touches `process` or its streams, except `launcher.ts` and `system-runtime.ts`. */
import { EventEmitter } from "node:events";
import type { Io } from "./context.ts";
import { exitCodes } from "./exit-codes.ts";
import { main } from "./main.ts";

export async function runProcess(importModule: Io["importModule"]): Promise<void> {
  const interrupt = new AbortController();
  // Fifty servers that start at the same time all listen to this signal; that is no leak.
  EventEmitter.setMaxListeners(0, interrupt.signal);
  let outputError: NodeJS.ErrnoException | undefined;

  process.on("SIGINT", interruptOrExit);
  process.on("SIGTERM", interruptOrExit);
  process.stdout.on("error", onOutputError);
  process.stderr.on("error", onOutputError);

  const code = await main(process.argv.slice(2), {
    // Opening it takes time, and few commands read it.
    get stdin() {
      return process.stdin;
    },
    stdout: process.stdout,
    stderr: process.stderr,
    cwd: process.cwd(),
    env: process.env,
    signal: interrupt.signal,
    nodeVersion: process.versions.node,
    platform: process.platform,
    execPath: process.execPath,
    script: process.argv[1],
    importModule,
  });
  // Exit once the output is flushed or has failed, even if a handler that ignores its signal is still running.
  process.stdout.write("", () => setImmediate(exit));

  /** The first signal cancels the running command, which is recorded. The second one exits at once. */
  function interruptOrExit(): void {
    if (interrupt.signal.aborted) process.exit(130);
    interrupt.abort();
  }

  /** Cancels the running command, so that it cleans up. The first of several errors is the cause. */
  function onOutputError(error: NodeJS.ErrnoException): void {
    if (outputError === undefined) outputError = error;
    interrupt.abort();
  }

  function exit(): void {
    if (outputError === undefined) process.exit(code);
    // `qm events | head -1`: the reader has closed the pipe, which is no error.
    if (outputError.code === "EPIPE") process.exit(exitCodes.done);
    process.stderr.write(`qm: the output could not be written: ${outputError.message}\n`, () =>
      process.exit(exitCodes.failed),
    );
  }
}
