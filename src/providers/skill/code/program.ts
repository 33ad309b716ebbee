import { spawn } from "node:child_process";
import { once } from "node:events";
import { lchown, readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import type { CallContext } from "../../../core/action.ts";
import { onAbort, settlesWithin } from "../../../core/async.ts";
import { escapeUnsafe, toOneLine } from "../../../core/display-text.ts";
import { QmError } from "../../../core/errors.ts";
import { clip, hasWideObject, isLargerThan, isRecord, OBJECT_FIELD_LIMIT, omitUndefined } from "../../../core/json.ts";
import { createLineReader } from "../../../core/line-reader.ts";
import { getModelData, type Outcome } from "../../../core/outcome.ts";
import { type SandboxChoice, type SandboxedCommand, type SandboxStream, sendInputs } from "../../../core/sandbox.ts";
import { findReportedSignal } from "../../exec/run-program.ts";
import { createEndError, createStartError, createToolError } from "./program-errors.ts";

/** The parts of our own process that starting and stopping programs needs. */
export interface ProgramHost {
  /** The program that runs JavaScript. */
  readonly nodePath: string;
  /** The folders in which `python3` is looked up, as in `PATH`. */
  readonly searchPath: string;
  /** Like `process.kill`: a negative id means a process group. Throws if there is none. */
  kill(pid: number, signal: NodeJS.Signals): unknown;
  /** Absent: programs run with our rights. */
  readonly sandbox?: SandboxChoice | undefined;
}

export interface ProgramLaunch {
  /** The name of the skill, for messages. */
  readonly name: string;
  readonly command: readonly string[];
  /** A private folder of the run. It is removed if this process dies. */
  readonly folder: string;
  /** The working folder. */
  readonly cwd: string;
  /** The option of `ulimit` that limits the memory of this kind of program, and the megabytes. */
  readonly memory: readonly [option: string, megabytes: number];
  readonly cpuSeconds: number;
  /** Files and folders that the program must be able to read in a sandbox. */
  readonly readable: readonly string[];
  /** The first line that the program gets. */
  readonly request: unknown;
}

/** Longer messages are refused, in both directions. */
const LINE_BYTES = 4 * 1024 * 1024;
/** The work on a message grows with its parts, not with its bytes. */
const MESSAGE_SHAPE = { nodes: 500_000, depth: 128 } as const;
const CALLS_AT_ONCE = 8;
const CALL_LIMIT = 1_000;
const MESSAGE_LIMIT = 10_000;
const LOG_LINES = 200;
const LOG_BYTES = 2_000;
const TAIL_BYTES = 4_000;
const PIPE_GRACE_MS = 1_000;

const STREAMS: readonly SandboxStream[] = ["pipe", "pipe", "pipe", "pipe"];

/**
 * Starts the program with limits, unless a sandbox sets them. A subshell of the same process group waits until standard
 * input ends, which it does when this process dies, and then kills the group.
 */
const SCRIPT = `
exec 4<&0
( read -r line <&4; kill -s KILL $$; rm -rf -- "$1"; kill -s KILL 0 ) </dev/null >/dev/null 2>&1 3>&- &
[ -z "$2" ] || { ulimit -c 0; ulimit -f 0; ulimit -t "$2"; ulimit "$3" "$4"; }
shift 4
exec "$@" </dev/null 4<&-
`;

/**
 * Runs a program that talks in JSON lines on file descriptor 3: it gets the request, may call actions, and sends one result.
 * All its processes are killed before this settles.
 */
export async function runProgram(launch: ProgramLaunch, context: CallContext, host: ProgramHost): Promise<unknown> {
  const { folder, cwd, command, cpuSeconds, memory, request } = launch;
  const isolated = host.sandbox && (await isolate(launch, host.sandbox));
  const limits = [String(cpuSeconds), memory[0], String(memory[1] * 1024)];
  const program = isolated === undefined ? [...limits, ...command] : ["", "", "", isolated.file, ...isolated.args];
  context.signal.throwIfAborted();
  // Without our environment: it may hold secrets.
  const options = isolated?.options ?? { cwd, env: {}, stdio: [...STREAMS], detached: true };
  const child = spawn("/bin/sh", ["-c", SCRIPT, "sh", folder, ...program], options);
  if (child.pid === undefined) throw createStartError(launch, (await once(child, "error"))[0]);
  if (isolated !== undefined) sendInputs(child.stdio, isolated);
  const channel = child.stdio[3] as Duplex;
  const killGroup = (): void => {
    try {
      host.kill(-Number(child.pid), "SIGKILL");
    } catch {
      // It has ended.
    }
  };
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const calls = createCallQueue(channel, context);
  let stopListening = (): void => {};
  try {
    return await new Promise((resolve, reject) => {
      stopListening = onAbort(context.signal, reject);
      const tail = createOutputTail(launch.name, context);
      child.stdout?.on("data", tail.takeOutput);
      child.stderr?.on("data", tail.takeErrors);
      // The rest of its output is read before "close".
      child.once("exit", killGroup);
      child.once("close", (code, signal) => {
        const reported = isolated && findReportedSignal(code);
        reject(createEndError(launch, { code, signal: signal ?? reported ?? null, errors: tail.read() }));
      });
      for (const stream of [channel, child.stdin]) stream?.on("error", () => {});
      channel.once("end", killGroup);
      readMessages(channel, launch, context, calls, { resolve, reject });
      channel.write(`${JSON.stringify(request)}\n`);
    });
  } finally {
    stopListening();
    killGroup();
    channel.destroy();
    // Running calls are recorded under this one, so this one ends after them.
    await calls.close();
    await exited;
    // A process that left the group could hold the pipes open.
    await settlesWithin(closed, PIPE_GRACE_MS);
    for (const stream of child.stdio) stream?.destroy();
  }
}

/** The command with its sandbox around it. Gives the files of the run to the user of the program. */
async function isolate(launch: ProgramLaunch, { sandbox, settings }: SandboxChoice): Promise<SandboxedCommand> {
  const { command, cwd, cpuSeconds, folder, readable } = launch;
  const reach = { cpuSeconds, ...settings, read: [...settings.read, ...readable] };
  // The script uses one descriptor more.
  const streams = [...STREAMS, "ignore"] as const;
  const isolated = await sandbox.prepare({ settings: reach, command, cwd, env: {}, streams });
  const user = await sandbox.chooseUser(settings.write[0]);
  if (user !== undefined) {
    const inside = await readdir(folder, { recursive: true });
    await Promise.all(["", ...inside].map((path) => lchown(join(folder, path), user.uid, user.gid)));
  }
  return isolated;
}

interface Settle {
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

type ToolCall = { readonly id: unknown; readonly name: string; readonly args: unknown };

/** Runs a few calls at the same time. Stops reading while more wait, so that a program that floods the channel waits, too. */
function createCallQueue(channel: Duplex, context: CallContext) {
  const waiting: ToolCall[] = [];
  const running = new Set<Promise<void>>();

  function start(): void {
    for (let next = waiting[0]; next !== undefined && running.size < CALLS_AT_ONCE; next = waiting[0]) {
      waiting.shift();
      const answer = answerCall(channel, next, context).finally(() => {
        running.delete(answer);
        start();
      });
      running.add(answer);
    }
    if (waiting.length > 0) channel.pause();
    else channel.resume();
  }

  return {
    add(call: ToolCall): void {
      waiting.push(call);
      start();
    },
    /** Drops the calls that have not started, and waits for the others. */
    async close(): Promise<void> {
      waiting.length = 0;
      await Promise.all(running);
    },
  };
}

function readMessages(
  channel: Duplex,
  { name: skill }: ProgramLaunch,
  context: CallContext,
  queue: ReturnType<typeof createCallQueue>,
  settle: Settle,
): void {
  let isOpen = true;
  let messages = 0;
  let calls = 0;
  function resolve(result: unknown): void {
    isOpen = false;
    settle.resolve(result);
  }
  function reject(error: QmError): void {
    isOpen = false;
    settle.reject(error);
  }
  function breakOff(what: string): void {
    reject(new QmError("action_failed", `the skill ${skill} was stopped: ${what}`));
  }

  function takeMessage(line: Buffer): void {
    if (!isOpen) return;
    const message = parseMessage(line);
    const { call, progress, error } = message;
    if (isLargerThan(message, MESSAGE_SHAPE)) breakOff("it sent a value that is too deep or has too many parts");
    else if (hasWideObject(message)) breakOff(`it sent an object with more than ${OBJECT_FIELD_LIMIT} fields`);
    else if (++messages > MESSAGE_LIMIT) breakOff(`it sent more than ${MESSAGE_LIMIT} messages`);
    else if (isRecord(call)) takeCall(call);
    else if (isRecord(progress)) reportProgress(progress, context);
    else if (typeof error === "string") reject(createToolError(skill, error));
    else if (Object.hasOwn(message, "result")) resolve(message.result);
    else breakOff("it sent a message that cannot be read");
  }

  function takeCall({ id, name, args }: Readonly<Record<string, unknown>>): void {
    if (typeof name !== "string") breakOff("a call needs the name of an action");
    else if (++calls > CALL_LIMIT) breakOff(`it made more than ${CALL_LIMIT} calls`);
    else queue.add({ id, name, args });
  }

  const lines = createLineReader({
    limit: LINE_BYTES,
    onLine: takeMessage,
    onGivenUp() {
      const message = `the skill ${skill} was stopped: its result or an argument is longer than ${LINE_BYTES} bytes`;
      reject(new QmError("too_large", message));
    },
    onDropped() {},
  });
  channel.on("data", lines.push);
}

/** Empty for a line that is no message. */
function parseMessage(line: Buffer): Readonly<Record<string, unknown>> {
  try {
    const message: unknown = JSON.parse(line.toString());
    return isRecord(message) ? message : {};
  } catch {
    return {};
  }
}

async function answerCall(channel: Duplex, { id, name, args }: ToolCall, context: CallContext): Promise<void> {
  const outcome = toToolOutcome(await context.invoke(name, args));
  const answer = JSON.stringify({ id, outcome });
  const reason = `the result of ${name} is longer than ${LINE_BYTES} characters`;
  const line = answer.length > LINE_BYTES ? JSON.stringify({ id, outcome: { status: "failed", reason } }) : answer;
  if (channel.destroyed || channel.write(`${line}\n`)) return;
  await new Promise<void>((resolve) => {
    channel.once("drain", resolve).once("close", resolve);
  });
}

/** The outcome as the tool gets it. Hidden fields of a result stay hidden: what a tool returns is shown to a model. */
function toToolOutcome(outcome: Outcome): object {
  const { content: _content, ...rest } = outcome;
  if (rest.status !== "done") return rest;
  const { forModel: _forModel, ...done } = rest;
  return { ...done, data: getModelData(rest) };
}

function reportProgress({ progress, total, message }: Readonly<Record<string, unknown>>, { dialogue }: CallContext) {
  if (typeof progress !== "number") return;
  dialogue?.progress({
    progress,
    ...omitUndefined({
      total: typeof total === "number" ? total : undefined,
      message: typeof message === "string" ? clip(toOneLine(message), LOG_BYTES) : undefined,
    }),
  });
}

/** Sends the first lines that a tool prints to the caller as a log, and keeps the end of its errors. */
function createOutputTail(skill: string, { dialogue }: CallContext) {
  let left = LOG_LINES;
  let errors = "";
  const createReader = (level: string) => {
    const log = (line: Buffer): void => {
      if (left-- > 0) dialogue?.log({ level, logger: skill, data: escapeUnsafe(line.toString()) });
    };
    return createLineReader({ limit: LOG_BYTES, onLine: log, onDropped: ({ head }) => log(head) });
  };
  const [output, error] = [createReader("info"), createReader("warning")];
  return {
    takeOutput: output.push,
    takeErrors(chunk: Buffer): void {
      errors = (errors + chunk.toString()).slice(-TAIL_BYTES);
      error.push(chunk);
    },
    read: (): string => errors,
  };
}
