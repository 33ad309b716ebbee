#!/usr/bin/env node
/** The process around `main`. No other file touches `process` or its streams, except `system-runtime.ts`. */
import { setMaxListeners } from "node:events";
import * as nodeModule from "node:module";
import { join } from "node:path";
import { findPackageFolder } from "../app/system-runtime.ts";
import { exitCodes } from "./exit-codes.ts";

const interrupt = new AbortController();
// Fifty servers that start at the same time all listen to this signal; that is no leak.
setMaxListeners(0, interrupt.signal);
let outputError: NodeJS.ErrnoException | undefined;

process.on("SIGINT", interruptOrExit);
process.on("SIGTERM", interruptOrExit);
process.stdout.on("error", onOutputError);
process.stderr.on("error", onOutputError);

cacheCompiledCode();
const { main } = await import("./main.ts");
const code = await main(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  cwd: process.cwd(),
  env: process.env,
  signal: interrupt.signal,
  nodeVersion: process.versions.node,
  platform: process.platform,
  execPath: process.execPath,
});
// Exit once the output is flushed or has failed, even if a handler that ignores its signal is still running.
process.stdout.write("", () => setImmediate(exit));

/** Node 22.8 and later. The cache lies in the package: a user who can write there can change the program anyway. */
function cacheCompiledCode(): void {
  const { enableCompileCache } = nodeModule as { enableCompileCache?: (folder: string) => unknown };
  enableCompileCache?.(join(findPackageFolder(), "node_modules/.cache/compiled"));
}

/** The first signal cancels the running command, which is recorded. The second one exits at once. */
function interruptOrExit(): void {
  if (interrupt.signal.aborted) process.exit(130);
  interrupt.abort();
}

/** Cancels the running command, so that it cleans up. The first of several errors is the cause. */
function onOutputError(error: NodeJS.ErrnoException): void {
  outputError ??= error;
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
