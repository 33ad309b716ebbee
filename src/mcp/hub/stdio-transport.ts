import { once } from "node:events";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { corkUntilNextTurn, settlesWithin } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import type { Sandbox } from "../../core/sandbox.ts";
import { createFloodGuard, FLOOD_LIMIT, formatFloodReason, readInSlices } from "./flow-control.ts";
import { createMessageReader } from "./message-reader.ts";
import { createValueRedactor, type ValueRedactor } from "./redact-values.ts";
import { createStderrTail } from "./server-log.ts";
import { endProcessGroup, type KillProcess } from "./server-processes.ts";
import {
  type EnvironmentVariables,
  type ResolvedLaunch,
  type ServerProcess,
  startIsolated,
  startProcess,
  toStartError,
} from "./start-process.ts";
import type { StdioLimits } from "./stdio-limits.ts";
import type { Watchdog, WatchdogHold } from "./watchdog.ts";

type ProcessEnd = { readonly code: number | null; readonly signal: string | null };
const UNKNOWN_END: ProcessEnd = { code: null, signal: null };

/** A server that runs as a child process and speaks over its standard streams. */
export interface StdioTransport extends Transport {
  readonly pid: number | undefined;
  readonly noise: number;
  readonly noiseSamples: readonly string[];
  stderrTail(): string;
  /** Why the server was stopped for misbehaving. */
  readonly fault: string | undefined;
  /** Resolves when its process group is gone. Both fields are null if it never ran or could not be ended. */
  readonly ended: Promise<ProcessEnd>;
  /** Closes its stdin, waits, sends SIGTERM to the group, waits, sends SIGKILL. Resolves with `ended`. */
  close(): Promise<void>;
}

export interface StdioPorts {
  readonly server: string;
  readonly environment: EnvironmentVariables;
  readonly kill: KillProcess;
  readonly watchdog: Watchdog;
  readonly sandbox?: Sandbox | undefined;
  /** Hooks for a record of running processes. Their errors are ignored; `ended` waits for `onEnded`. */
  readonly onStarted?: ((pid: number) => unknown) | undefined;
  readonly onEnded?: ((pid: number) => unknown) | undefined;
  /** Redacts its output. Absent: redacts the values of its variables. */
  readonly hide?: ValueRedactor | undefined;
  readonly log?: ((line: string) => void) | undefined;
  readonly limits?: Partial<StdioLimits> | undefined;
  readonly platform?: NodeJS.Platform | undefined;
}

const DEFAULT_LIMITS: StdioLimits = {
  lineBytes: 64 * 1024 * 1024,
  unreadBytes: 64 * 1024 * 1024,
  closeMs: 2_000,
  flood: FLOOD_LIMIT,
  termMs: 2_000,
  killMs: 2_000,
};
/** How long the last output of a process may take to arrive after its exit. */
const DRAIN_MS = 1_000;

/** Creates a transport. `start` runs the process and throws a `QmError` if it cannot. */
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
  let stopReading: (() => void) | undefined;
  const flood = createFloodGuard(limits.flood);
  const stdout = createMessageReader({
    limit: limits.lineBytes,
    onLine() {
      if (fault !== undefined || !flood.count()) return;
      fault = formatFloodReason(limits.flood);
      stopReading?.();
      transport.onerror?.(new QmError("server_failed", `server ${server}: ${fault}`));
      abandon();
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
  const stderr = createStderrTail({ hide, onLine: ports.log });

  const transport: StdioTransport = {
    async start() {
      if (started) throw new QmError("internal", `server ${server} was started twice on one transport`);
      started = true;
      const hold = watchdog.hold();
      try {
        child =
          launch.sandbox === undefined
            ? startProcess(launch, ports.environment, platform)
            : await startIsolated(launch, ports.environment, ports.sandbox);
        if (child.pid === undefined) throw (await once(child, "error"))[0];
      } catch (thrown) {
        child = undefined;
        hold.release();
        settle(UNKNOWN_END);
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
      if ("method" in message && "id" in message) flood.expect(1);
      corkUntilNextTurn(stdin);
      await new Promise<void>((resolve, reject) => {
        // Called when the pipe has taken the line, so that a caller who waits sends no faster than the server reads.
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

  async function trackProcess(running: ServerProcess, pid: number, hold: WatchdogHold): Promise<void> {
    const exited = new Promise<ProcessEnd>((resolve) => {
      running.once("exit", (code, signal) => resolve({ code, signal }));
    });
    const drained = new Promise((resolve) => running.once("close", resolve));
    const recorded = ignoreErrors(() => ports.onStarted?.(pid));
    running.on("error", (error) => transport.onerror?.(error));
    const streams = [running.stdin, running.stdout, running.stderr];
    // `send` reports a broken pipe.
    for (const stream of streams) stream.on("error", () => {});
    const stops = [readInSlices(running.stdout, stdout.push), readInSlices(running.stderr, stderr.push)];
    stopReading = stops[0];
    running.stdout.once("close", () => {
      // A running server is useless without its stdout.
      void settlesWithin(exited, DRAIN_MS).then((isGone) => {
        if (!isGone) abandon();
      });
    });

    const end = await exited;
    // End its children too. They may hold the pipes, which would then never be drained.
    const groupEnded = endProcessGroup(pid, ports.kill, limits, platform);
    await settlesWithin(drained, DRAIN_MS);
    for (const stop of stops) stop();
    stdout.end();
    stderr.end();
    announce();
    await groupEnded;
    hold.release();
    for (const stream of streams) stream.destroy();
    await recorded;
    await ignoreErrors(() => ports.onEnded?.(pid));
    settle(end);
  }

  async function shutDown(): Promise<void> {
    const pid = child?.pid;
    started = true;
    if (child !== undefined && pid !== undefined) {
      child.stdin.end();
      if (await settlesWithin(ended, limits.closeMs)) return;
      await endProcessGroup(pid, ports.kill, limits, platform);
      if (await settlesWithin(ended, limits.killMs + DRAIN_MS)) return;
    }
    settle(UNKNOWN_END);
    announce();
  }

  function abandon(): void {
    announce();
    void transport.close();
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

/** A record that cannot be written must not stop a server. */
async function ignoreErrors(hook: () => unknown): Promise<void> {
  await Promise.resolve()
    .then(hook)
    .catch(() => undefined);
}

const notRunningError = (server: string, cause?: Error): QmError =>
  new QmError("server_failed", `server ${server} is not running, or has closed its stdin`, { cause });

function notReadingError(server: string): QmError {
  const hint = "It may hang. Stop it; the next call starts it again.";
  return new QmError("server_failed", `server ${server} does not read its messages`, { hint });
}
