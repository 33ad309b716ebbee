import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { constants } from "node:os";
import type { Duplex, Readable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { onAbort, settlesWithin } from "../../core/async.ts";
import { escapeUnsafe } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { clip, omitUndefined } from "../../core/json.ts";
import { type Sandbox, type SandboxedCommand, type SandboxRequest, sendInputs } from "../../core/sandbox.ts";

export interface ProgramRequest extends Omit<SandboxRequest, "streams"> {
  readonly stdin: string;
  readonly timeoutMs: number;
  /** The bytes of each stream that are returned. */
  readonly outputBytes: number;
}

export interface ProgramPorts {
  readonly sandbox: Sandbox;
  /** Like `process.kill`: a negative id means a process group. Throws if there is none. */
  readonly kill: (pid: number, signal: NodeJS.Signals) => unknown;
}

export interface ProgramEnd {
  /** Absent: the program was stopped. */
  readonly code?: number;
  readonly signal?: string;
  readonly stdout: Output;
  readonly stderr: Output;
  /** Why the program was stopped. */
  readonly stopped?: "timeout" | "output";
}

interface Output {
  readonly text: string;
  readonly truncated: boolean;
}

/** The program is stopped when it writes this much more than is returned. */
const DISCARDED_BYTES = 64 * 1024 * 1024;
const REASON_CHARS = 400;
/** A program that is not isolated can leave a process behind that holds the pipes. */
const PIPE_GRACE_MS = 1_000;
const GONE_MS = 2;
const GONE_TRIES = 1_000;

/** Runs a program to its end. Its whole process tree is gone before this settles. Rejects if it could not be started. */
export async function runUntilEnd(
  request: ProgramRequest,
  { sandbox, kill: sendSignal }: ProgramPorts,
  signal: AbortSignal,
): Promise<ProgramEnd> {
  const { stdin, timeoutMs, outputBytes, ...what } = request;
  const command = await sandbox.prepare({ ...what, streams: ["pipe", "pipe", "pipe"] });
  signal.throwIfAborted();
  const child = await spawnProgram(command);
  const streams = child.stdio as readonly unknown[];
  const [stdinPipe, stdoutPipe, stderrPipe] = streams as readonly [Duplex, Readable, Readable];
  const statusPipe = streams[command.statusFd] as Readable;
  let stopped: ProgramEnd["stopped"];
  let hasEnded = false;
  const kill = (): void => {
    // Later the system may have given the id to another process.
    if (hasEnded) return;
    try {
      sendSignal(-Number(child.pid), "SIGKILL");
    } catch {
      // The program has just ended.
    }
  };
  function stop(why: ProgramEnd["stopped"]): void {
    stopped ??= why;
    kill();
  }

  const exited = new Promise<{ readonly code: number | null; readonly signal: string | null }>((resolve) => {
    child.once("exit", (code, by) => {
      // A program that is not isolated can leave processes behind in its group.
      kill();
      hasEnded = true;
      resolve({ code, signal: by });
    });
  });
  const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const out = collectOutput(stdoutPipe, outputBytes, () => stop("output"));
  const err = collectOutput(stderrPipe, outputBytes, () => stop("output"));
  let status = "";
  statusPipe.on("data", (chunk) => {
    status += String(chunk);
  });
  for (const stream of child.stdio) stream?.on("error", () => {});
  sendInputs(streams, command);
  stdinPipe.end(stdin);
  const timer = setTimeout(() => stop("timeout"), timeoutMs);
  const stopListening = onAbort(signal, kill);
  try {
    const end = await exited;
    await settlesWithin(closed, PIPE_GRACE_MS);
    // The first process of the sandbox ends a moment after the sandbox, and all others with it.
    const [, first] = /"child-pid": (\d+)/.exec(status) ?? [];
    if (first !== undefined) await waitUntilGone(first);
    signal.throwIfAborted();
    const [stdout, stderr] = [out.read(), err.read()];
    if (stopped !== undefined) return { stopped, stdout, stderr };
    if (!/exit-code|started/.test(status)) throw createRefusedError(stderr.text);
    return { ...toExit(end), stdout, stderr };
  } finally {
    clearTimeout(timer);
    stopListening();
    for (const stream of child.stdio) stream?.destroy();
  }
}

async function spawnProgram({ file, args, options }: SandboxedCommand): Promise<ChildProcess> {
  try {
    const child = spawn(file, args, options);
    if (child.pid === undefined) throw (await once(child, "error"))[0];
    return child;
  } catch (thrown) {
    throw createStartError(thrown);
  }
}

async function waitUntilGone(pid: string): Promise<void> {
  for (let tries = 0; tries < GONE_TRIES; tries++) {
    const stat = await readFile(`/proc/${pid}/stat`, "latin1").catch(() => "");
    // A zombie is gone. The second field is the program's name, which may hold parentheses.
    if (stat === "" || stat.slice(stat.lastIndexOf(")") + 2).startsWith("Z")) return;
    await pause(GONE_MS);
  }
}

/** Keeps the beginning of a stream and counts the rest, so that the program does not wait for a reader. */
function collectOutput(pipe: Readable, limit: number, onFlood: () => void) {
  // One buffer: a program that writes single bytes would fill the memory with small ones.
  const start = Buffer.alloc(limit);
  let bytes = 0;
  pipe.on("data", (chunk: Buffer) => {
    if (bytes < limit) chunk.copy(start, bytes);
    bytes += chunk.length;
    if (bytes > limit + DISCARDED_BYTES) onFlood();
  });
  return {
    read(): Output {
      const truncated = bytes > limit;
      // Streaming leaves out a character that was cut in two.
      const text = new TextDecoder().decode(start.subarray(0, bytes), { stream: truncated });
      return { text, truncated };
    },
  };
}

function toExit({ code, signal }: { readonly code: number | null; readonly signal: string | null }) {
  if (signal !== null) return { signal };
  return code === null ? {} : omitUndefined({ code, signal: findReportedSignal(code) });
}

/** The signal that ended a program in a sandbox. It reports one as a shell does: 128 and the number of the signal. */
export const findReportedSignal = (code: number | null): string | undefined =>
  Object.entries(constants.signals).find(([, number]) => number + 128 === code)?.[0];

function createStartError(thrown: unknown): QmError {
  const code = (thrown as NodeJS.ErrnoException).code ?? "the system refused it";
  const isFull = ["EAGAIN", "EMFILE", "ENFILE", "ENOMEM"].includes(code);
  const hint = isFull ? "Try again in a moment." : "Give it fewer or shorter arguments.";
  return new QmError(isFull ? "overloaded" : "action_failed", `the program could not be started: ${code}`, { hint });
}

/** `stderr` is what the sandbox itself wrote. */
function createRefusedError(stderr: string): QmError {
  const [reason = ""] = stderr.trim().split("\n");
  const why = reason === "" ? "" : `: ${clip(escapeUnsafe(reason), REASON_CHARS)}`;
  return new QmError("action_failed", `the sandbox did not start the program${why}`, {
    hint: "A person must repair it: the user that programs run as must be able to reach the granted folders.",
  });
}
