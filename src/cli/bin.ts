#!/usr/bin/env node
/**
 * The process around `main`. No other file touches `process` or its streams, except `system-runtime.ts`. Before
 * it has checked the version of Node, it needs nothing newer than Node 12, so that an old Node can print the problem.
 */
import * as nodeModule from "node:module";
import { join } from "node:path";

/** As `engines` in package.json. */
const REQUIRED = [20, 19] as const;

if (isSupported(process.versions.node)) void run();
else {
  process.stderr.write(`Quartermaster needs Node ${REQUIRED.join(".")} or newer; this is v${process.versions.node}.\n`);
  process.exitCode = 1;
}

function isSupported(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > REQUIRED[0] || (major === REQUIRED[0] && minor >= REQUIRED[1]);
}

async function run(): Promise<void> {
  const { EventEmitter } = await import("node:events");
  const { findPackageFolder } = await import("../app/system-runtime.ts");
  const { exitCodes } = await import("./exit-codes.ts");
  const interrupt = new AbortController();
  // Fifty servers that start at the same time all listen to this signal; that is no leak.
  EventEmitter.setMaxListeners(0, interrupt.signal);
  let outputError: NodeJS.ErrnoException | undefined;

  process.on("SIGINT", interruptOrExit);
  process.on("SIGTERM", interruptOrExit);
  process.stdout.on("error", onOutputError);
  process.stderr.on("error", onOutputError);

  cacheCompiledCode(findPackageFolder());
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
    script: process.argv[1],
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

/** Node 22.8 and later. The cache lies in the package: a user who can write there can change the program anyway. */
function cacheCompiledCode(folder: string): void {
  const { enableCompileCache } = nodeModule as { enableCompileCache?: (folder: string) => unknown };
  if (enableCompileCache !== undefined) enableCompileCache(join(folder, "node_modules/.cache/compiled"));
}
