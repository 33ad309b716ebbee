#!/usr/bin/env node
/** The process around the program, and the only file that knows there is one. */
import { setMaxListeners } from "node:events";
import * as nodeModule from "node:module";
import { join } from "node:path";
import { findPackageFolder } from "../app/system-runtime.ts";
import { exitCodes } from "./exit-codes.ts";

const interrupt = new AbortController();
// Whatever runs listens to it: fifty servers that start are no leak.
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
// Not before everything is out, or is known not to get out; and not later, whatever a handler that ignores its signal
// still does.
process.stdout.write("", () => setImmediate(exit));

/**
 * Later starts need not compile again what this one did, where Node can keep it (22.8 and later). It is kept within the
 * package: whoever can write there can write the program as well.
 */
function cacheCompiledCode(): void {
  const { enableCompileCache } = nodeModule as { enableCompileCache?: (folder: string) => unknown };
  enableCompileCache?.(join(findPackageFolder(), "node_modules/.cache/compiled"));
}

/** The first time, what runs is cancelled and written down; the second time there is no waiting. */
function interruptOrExit(): void {
  if (interrupt.signal.aborted) process.exit(130);
  interrupt.abort();
}

/** What runs is ended as by Ctrl-C, so that it tidies up. Of several errors the first one is the cause. */
function onOutputError(error: NodeJS.ErrnoException): void {
  outputError ??= error;
  interrupt.abort();
}

function exit(): void {
  if (outputError === undefined) process.exit(code);
  // `qm events | head -1`: the reader has seen enough, which is no error of ours.
  if (outputError.code === "EPIPE") process.exit(exitCodes.done);
  process.stderr.write(`qm: the output could not be written: ${outputError.message}\n`, () =>
    process.exit(exitCodes.failed),
  );
}
