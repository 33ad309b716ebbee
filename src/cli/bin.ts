#!/usr/bin/env node
/** The process around the program, and the only file that knows there is one. */
import { main } from "./main.ts";

const interrupt = new AbortController();
let isPipeClosed = false;

process.on("SIGINT", stop);
process.on("SIGTERM", stop);
process.stdout.on("error", onOutputError);
process.stderr.on("error", onOutputError);

const code = await main(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  cwd: process.cwd(),
  env: process.env,
  signal: interrupt.signal,
  nodeVersion: process.versions.node,
});
// Not before everything is out; and not later, whatever a handler that ignores its signal still does.
process.stdout.write("", () => process.exit(isPipeClosed ? 0 : code));

/** The first time, what runs is cancelled and written down; the second time there is no waiting. */
function stop(): void {
  if (interrupt.signal.aborted) process.exit(130);
  interrupt.abort();
}

/** `qm events | head -1`: the reader has seen enough, which is no error of ours. */
function onOutputError(error: NodeJS.ErrnoException): void {
  if (error.code !== "EPIPE") throw error;
  isPipeClosed = true;
  interrupt.abort();
}
