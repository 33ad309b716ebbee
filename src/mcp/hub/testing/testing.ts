import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { expect, onTestFinished } from "vitest";
import { startTimeOf } from "../start-time.ts";
import { openStdioTransport, type StdioPorts, type StdioTransport } from "../stdio-transport.ts";
import { createWatchdog } from "../watchdog.ts";

/** For tests with real processes: the servers beside this file, and whether anything of them is left. */

export function fixture(name: string): string {
  return fileURLToPath(new URL(name, import.meta.url));
}

/** How to start one of the servers here. */
export function launchOf(name: string, ...args: string[]) {
  return { command: process.execPath, args: [fixture(name), ...args], env: {} as Record<string, string> };
}

export interface Opened {
  readonly transport: StdioTransport;
  readonly messages: JSONRPCMessage[];
  readonly problems: Error[];
  /** How often it was said to be closed. */
  closed(): number;
  ask(method: string, params?: Record<string, unknown>): Promise<Record<string, unknown>>;
}

/** A transport that is closed with the test. */
export function opened(launch: Parameters<typeof openStdioTransport>[0], given: Partial<StdioPorts> = {}): Opened {
  const transport = openStdioTransport(launch, {
    server: "fixture",
    environment: process.env,
    kill: process.kill,
    watchdog: createWatchdog(process.env, process.platform),
    ...given,
  });
  const messages: JSONRPCMessage[] = [];
  const problems: Error[] = [];
  let closed = 0;
  transport.onmessage = (message) => void messages.push(message);
  transport.onerror = (problem) => void problems.push(problem);
  transport.onclose = () => void closed++;
  onTestFinished(() => transport.close());
  let last = 0;
  return {
    transport,
    messages,
    problems,
    closed: () => closed,
    async ask(method, params = {}) {
      const id = ++last;
      await transport.send({ jsonrpc: "2.0", id, method, params });
      const isAnswer = (message: JSONRPCMessage) => "id" in message && message.id === id && !("method" in message);
      await until(() => messages.some(isAnswer));
      const answer = messages.find(isAnswer);
      return (answer && "result" in answer ? answer.result : answer) as Record<string, unknown>;
    },
  };
}

/** Waits for something to become so. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  await expect.poll(holds, { timeout: 30_000, interval: 10 }).toBe(true);
}

/** Not those that are dead and wait for somebody to notice. */
export async function isRunning(pid: number): Promise<boolean> {
  return (await startTimeOf(pid)) !== undefined;
}

/** A process that stays until the test is over, as the first of its group. */
export function sleeper(...args: string[]) {
  const child = spawn(process.execPath, [fixture("stubborn.mjs"), ...args], {
    detached: true,
    stdio: ["pipe", "ignore", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}
