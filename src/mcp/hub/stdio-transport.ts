import { once } from "node:events";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { settlesWithin } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import {
  createFloodGuard,
  FLOOD_LIMIT,
  type FloodLimit,
  formatFloodReason,
  readInSlices,
  type SliceReader,
} from "./flow-control.ts";
import { createMessageReader } from "./message-reader.ts";
import { createValueRedactor, type ValueRedactor } from "./redact-values.ts";
import { createStderrTail } from "./server-log.ts";
import { createProcessGroup, endProcessGroup, type KillProcess, type KillTimeouts } from "./server-processes.ts";
import type { EnvironmentVariables } from "./start-process.ts";
import { type ResolvedLaunch, type ServerProcess, startProcess, toStartError } from "./start-process.ts";
import type { Watchdog, WatchdogHold } from "./watchdog.ts";

export interface ProcessEnd {
  readonly code: number | null;
  readonly signal: string | null;
}

/** A server that runs as a process here, and is spoken to over its standard streams. */
export interface StdioTransport extends Transport {
  readonly pid: number | undefined;
  /** Lines on its stdout that were no messages. */
  readonly noise: number;
  /** The first few of them. */
  readonly noiseSamples: readonly string[];
  /** The end of what it wrote to stderr, without what is to be hidden. */
  stderrTail(): string;
  /** Why it was stopped, where that was for what it did. */
  readonly fault: string | undefined;
  /** Resolves when its whole group of processes is gone. Both null: it never ran, or could not be made to end. */
  readonly ended: Promise<ProcessEnd>;
  /** Closes its stdin, waits, sends SIGTERM to the group, waits, sends SIGKILL. Resolves with `ended`. */
  close(): Promise<void>;
}

export interface StdioLimits extends KillTimeouts {
  /** A longer line on stdout is dropped. */
  readonly lineBytes: number;
  /** More than this, sent and not read by the server, is refused. */
  readonly unreadBytes: number;
  /** How long a server may take to go once its stdin is closed. */
  readonly closeMs: number;
  /** A server that sends more lines than this is stopped. */
  readonly flood: FloodLimit;
}

export interface StdioPorts {
  readonly server: string;
  /** Our own variables; few of them are passed on. */
  readonly environment: EnvironmentVariables;
  readonly kill: KillProcess;
  readonly watchdog: Watchdog;
  /** For a record of what runs. What they throw is not looked at; `ended` waits for `onEnded`. */
  readonly onStarted?: ((pid: number) => unknown) | undefined;
  readonly onEnded?: ((pid: number) => unknown) | undefined;
  /** Removes what nobody may read from what it says. Absent: the values of its variables. */
  readonly hide?: ValueRedactor | undefined;
  /** Gets each line of stderr. */
  readonly log?: ((line: string) => void) | undefined;
  readonly limits?: Partial<StdioLimits> | undefined;
  readonly platform?: NodeJS.Platform | undefined;
}

const MEBIBYTE = 1024 * 1024;
const DEFAULT_LIMITS: StdioLimits = {
  lineBytes: 64 * MEBIBYTE,
  unreadBytes: 64 * MEBIBYTE,
  closeMs: 2_000,
  flood: FLOOD_LIMIT,
  termMs: 2_000,
  killMs: 2_000,
};
/** How long what a process wrote last may take to arrive when it is gone. */
const DRAIN_MS = 1_000;

/** Nothing runs before `start`. What it throws is a `QmError`. */
export function openStdioTransport(launch: ResolvedLaunch, ports: StdioPorts): StdioTransport {
  const { server, watchdog, platform = process.platform, hide = createValueRedactor(launch.env) } = ports;
  const limits: StdioLimits = { ...DEFAULT_LIMITS, ...ports.limits };
  let child: ServerProcess | undefined;
  let isOpen = false;
  let started = false;
  let closing: Promise<void> | undefined;
  let settle: (end: ProcessEnd) => void = () => {};
  const ended = new Promise<ProcessEnd>((resolve) => {
    settle = resolve;
  });

  let fault: string | undefined;
  const guard = createFloodGuard(limits.flood);
  const stdout = createMessageReader({
    limit: limits.lineBytes,
    onLine() {
      if (fault !== undefined || !guard.isFlooded()) return;
      fault = formatFloodReason(limits.flood);
      reading?.stop();
      transport.onerror?.(new QmError("server_failed", `server ${server}: ${fault}`));
      announce();
      void transport.close();
    },
    onMessage(message) {
      if (fault !== undefined) return;
      try {
        transport.onmessage?.(message);
      } catch (thrown) {
        transport.onerror?.(thrown as Error);
      }
    },
    onProblem: (problem) => transport.onerror?.(problem),
  });
  let reading: SliceReader | undefined;
  const stderr = createStderrTail({ hide, onLine: ports.log });

  const transport: StdioTransport = {
    async start() {
      if (started) throw new QmError("internal", `server ${server} was started twice on one transport`);
      started = true;
      const hold = watchdog.hold();
      try {
        child = startProcess(launch, ports.environment, platform);
        if (child.pid === undefined) throw (await once(child, "error"))[0];
      } catch (thrown) {
        child = undefined;
        hold.release();
        settle({ code: null, signal: null });
        throw toStartError(server, launch, thrown, hide);
      }
      hold.watch(child.pid);
      isOpen = true;
      void trackProcess(child, child.pid, hold);
    },

    async send(message: JSONRPCMessage) {
      const stdin = child?.stdin;
      if (!isOpen || !stdin?.writable) throw notRunningError(server);
      if (stdin.writableLength > limits.unreadBytes) throw notReadingError(server);
      const line = `${JSON.stringify(message)}\n`;
      await new Promise<void>((resolve, reject) => {
        // Called when the pipe has taken it: whoever waits for that sends no faster than the server reads.
        stdin.write(line, (error) => (error ? reject(notRunningError(server, error)) : resolve()));
      });
    },

    close() {
      closing ??= shutDown();
      return closing;
    },

    get pid() {
      return child?.pid;
    },
    get noise() {
      return stdout.noise;
    },
    noiseSamples: stdout.samples,
    get fault() {
      return fault;
    },
    stderrTail: () => stderr.text(),
    ended,
  };

  /** From its start to its end. */
  async function trackProcess(running: ServerProcess, pid: number, hold: WatchdogHold): Promise<void> {
    const exited = new Promise<ProcessEnd>((resolve) => {
      running.once("exit", (code, signal) => resolve({ code, signal }));
    });
    const drained = new Promise((resolve) => running.once("close", resolve));
    const recorded = ignoreErrors(() => ports.onStarted?.(pid));
    running.on("error", (error) => transport.onerror?.(error));
    // A server that went away, or reads no more: whoever sends is told so by `send`.
    running.stdin.on("error", () => {});
    running.stdout.on("error", () => {});
    running.stderr.on("error", () => {});
    const readings = [readInSlices(running.stdout, stdout.push), readInSlices(running.stderr, stderr.push)];
    reading = readings[0];
    running.stdout.once("close", () => {
      // Without its stdout it is of no use, whether it runs or not.
      void settlesWithin(exited, DRAIN_MS).then((isGone) => {
        if (isGone) return;
        announce();
        void transport.close();
      });
    });

    const end = await exited;
    // What it started ends with it. It may hold the pipes, so that they would never be drained.
    const isGone = endProcessGroup(createProcessGroup(pid, ports.kill, platform), limits);
    await settlesWithin(drained, DRAIN_MS);
    for (const each of readings) each.stop();
    stdout.end();
    stderr.end();
    announce();
    await isGone;
    hold.release();
    for (const stream of [running.stdin, running.stdout, running.stderr]) stream.destroy();
    await recorded;
    await ignoreErrors(() => ports.onEnded?.(pid));
    settle(end);
  }

  async function shutDown(): Promise<void> {
    const pid = child?.pid;
    if (child === undefined || pid === undefined) {
      started = true;
      settle({ code: null, signal: null });
      announce();
      return;
    }
    child.stdin.end();
    if (await settlesWithin(ended, limits.closeMs)) return;
    await endProcessGroup(createProcessGroup(pid, ports.kill, platform), limits);
    if (await settlesWithin(ended, limits.killMs + DRAIN_MS)) return;
    settle({ code: null, signal: null });
    announce();
  }

  let announced = false;
  function announce(): void {
    isOpen = false;
    if (announced) return;
    announced = true;
    transport.onclose?.();
  }

  return transport;
}

async function ignoreErrors(hook: () => unknown): Promise<void> {
  try {
    await hook();
  } catch {
    // A record that cannot be kept stops no server.
  }
}

function notRunningError(server: string, cause?: Error): QmError {
  return new QmError("server_failed", `server ${server} does not run any more, or reads nothing any more`, { cause });
}

function notReadingError(server: string): QmError {
  return new QmError("server_failed", `server ${server} does not read what it is sent`, {
    hint: "It may hang. Stop it; the next call starts it again.",
  });
}
