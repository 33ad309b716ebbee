import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { constants } from "node:os";
import type { Duplex, Readable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { onAbort, settlesWithin } from "../../core/async.ts";
import { escapeUnsafe } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { clip } from "../../core/json.ts";
import { buildStdio, type Sandbox, type SandboxRequest } from "../../core/sandbox.ts";

export interface ProgramRequest extends Omit<SandboxRequest, "inputFd" | "statusFd"> {
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
  /** All bytes that were written. */
  readonly bytes: number;
  readonly truncated: boolean;
}

const INPUT_FD = 3;
const STATUS_FD = 4;
/** More output than this is not worth reading: the program is stopped. */
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
  const command = await sandbox.prepare({ ...what, inputFd: INPUT_FD, statusFd: STATUS_FD });
  const { file, args, input, holdsInput, env, user } = command;
  signal.throwIfAborted();
  const child = spawn(file, args, {
    ...user,
    env,
    // The sandbox enters the folder itself, after it has hidden what must not be seen.
    cwd: holdsInput === true ? what.cwd : "/",
    stdio: buildStdio(command, ["pipe", "pipe", "pipe", "pipe", "pipe"]),
    detached: true,
  });
  const [stdinPipe, stdoutPipe, stderrPipe, inputPipe, statusPipe] = child.stdio as unknown as readonly [
    Duplex,
    Readable,
    Readable,
    Duplex,
    Readable,
  ];
  let stopped: ProgramEnd["stopped"];
  const kill = (): void => {
    try {
      if (child.pid !== undefined) sendSignal(-child.pid, "SIGKILL");
    } catch {
      // It has ended.
    }
  };
  function stop(why: ProgramEnd["stopped"]): void {
    stopped ??= why;
    kill();
  }

  const exited = new Promise<{ readonly code: number | null; readonly signal: string | null }>((resolve, reject) => {
    child.once("exit", (code, by) => resolve({ code, signal: by })).once("error", reject);
  });
  const closed = new Promise<void>((resolve) => child.once("close", () => resolve()).once("error", () => resolve()));
  const [out, err] = [stdoutPipe, stderrPipe].map((pipe) => collectOutput(pipe, outputBytes, () => stop("output")));
  let status = "";
  statusPipe.on("data", (chunk) => {
    status += String(chunk);
  });
  for (const stream of child.stdio) stream?.on("error", () => {});
  inputPipe.write(input);
  if (holdsInput !== true) inputPipe.end();
  stdinPipe.end(stdin);
  const timer = setTimeout(() => stop("timeout"), timeoutMs);
  const stopListening = onAbort(signal, kill);
  try {
    const end = await exited.catch((thrown: unknown) => {
      throw createStartError(thrown);
    });
    kill();
    await settlesWithin(closed, PIPE_GRACE_MS);
    // The first process of the sandbox ends a moment after the sandbox, and all others with it.
    const [, first] = /"child-pid": (\d+)/.exec(status) ?? [];
    if (first !== undefined) await waitUntilGone(first);
    signal.throwIfAborted();
    const stdout = out?.read() ?? NO_OUTPUT;
    const stderr = err?.read() ?? NO_OUTPUT;
    if (stopped !== undefined) return { stopped, stdout, stderr };
    if (!/exit-code|started/.test(status)) throw createRefusedError(stderr.text);
    return { ...toExit(end), stdout, stderr };
  } finally {
    clearTimeout(timer);
    stopListening();
    kill();
    for (const stream of child.stdio) stream?.destroy();
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

const NO_OUTPUT: Output = { text: "", bytes: 0, truncated: false };

/** Keeps the beginning of a stream and counts the rest, so that the program does not wait for a reader. */
function collectOutput(pipe: Readable, limit: number, onFlood: () => void) {
  const chunks: Buffer[] = [];
  let bytes = 0;
  pipe.on("data", (chunk: Buffer) => {
    if (bytes < limit) chunks.push(chunk.subarray(0, limit - bytes));
    bytes += chunk.length;
    if (bytes > limit + DISCARDED_BYTES) onFlood();
  });
  return {
    read(): Output {
      const truncated = bytes > limit;
      // Streaming leaves out a character that was cut in two.
      const text = new TextDecoder().decode(Buffer.concat(chunks), { stream: truncated });
      return { text, bytes, truncated };
    },
  };
}

/** A sandbox reports a program that a signal ended as a shell does: 128 and the number of the signal. */
function toExit({ code, signal }: { readonly code: number | null; readonly signal: string | null }) {
  if (signal !== null) return { signal };
  if (code === null) return {};
  const [name] = Object.entries(constants.signals).find(([, number]) => number + 128 === code) ?? [];
  return name === undefined ? { code } : { code, signal: name };
}

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
