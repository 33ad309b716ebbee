import { setTimeout as pause } from "node:timers/promises";
import type { Client } from "@modelcontextprotocol/client";
import { connect, type Era } from "./driver.ts";
import type { Ground, Stand } from "./stand.ts";

/** One way for a client to reach the servers of a stand. */
export interface Gateway {
  readonly name: string;
  /** Gateways of the same kind share one preparation. */
  readonly kind: string;
  readonly era: Era;
  /** One-time setup before it is opened. Not timed. */
  prepare(stand: Stand): Promise<void>;
  /** Starts the gateway and connects a client. */
  open(stand: Stand): Promise<Open>;
  /** The tool call that reaches a server's echo tool. */
  call(server: string): ToolCall;
  /** How many tools the client sees in the end. The argument is the number of tools of all servers. */
  shows(tools: number): number;
  /** The tools of its servers are not known yet. Opening it may change that, so it is prepared each time. */
  readonly knowsNothing?: boolean;
  /** Its client is raw HTTP, which costs less than an MCP client. Its baseline is the floor. */
  readonly isRaw?: boolean;
  /** Its calls are slow, so it makes fewer of them than the others. */
  readonly slow?: boolean;
}

export interface ToolCall {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

/** What a bench uses of a client. Only the start is measured with `listTools`. */
export interface ToolCaller {
  callTool(call: ToolCall): Promise<{ readonly isError?: boolean | undefined; readonly content?: unknown }>;
  listTools?(): ReturnType<Client["listTools"]>;
}

export interface Open {
  readonly client: ToolCaller;
  /** The process id of the gateway, or of the server if there is no gateway. Undefined if the server already ran. */
  readonly pid: number | undefined;
  close(): Promise<void>;
}

export const TEXT = "The quick brown fox jumps over the lazy dog.";

/** The baseline: no gateway. Over HTTP the server already runs. */
export function direct(ground: Ground, kind: "stdio" | "http", era: Era = "legacy"): Gateway {
  return {
    name: `direct, ${kind}${era === "modern" ? ", 2026-07-28" : ""}`,
    kind: "direct",
    era,
    prepare: async () => {},
    async open({ folder, servers }) {
      const [upstream] = Object.values(servers);
      if (upstream === undefined) throw new Error("there is no server to connect to");
      const { client, pid } = await connect(
        upstream.kind === "stdio" ? { ...upstream, cwd: folder, env: ground.env } : upstream,
        era,
      );
      return { client, pid, close: () => client.close() };
    },
    call: (server) => ({ name: `${server}_echo`, arguments: { text: TEXT } }),
    shows: (tools) => tools,
  };
}

/** Rejects unless the tool ran. */
export async function callOnce(open: Open, gateway: Gateway, server: string): Promise<void> {
  const { isError, content } = await open.client.callTool(gateway.call(server));
  if (isError) throw new Error(`${gateway.name} did not call the tool: ${JSON.stringify(content).slice(0, 200)}`);
}

/** Some gateways accept clients before they know their servers' tools. */
export async function callUntilAnswered(open: Open, gateway: Gateway, server: string): Promise<void> {
  for (const until = performance.now() + READY_MS; ; await pause(100)) {
    try {
      await callOnce(open, gateway, server);
      return;
    } catch (thrown) {
      if (performance.now() > until) throw thrown;
    }
  }
}

const READY_MS = 10_000;

/** A gateway always has a process. */
export function pidOf({ pid }: Open): number {
  if (pid === undefined) throw new Error("the gateway has no process");
  return pid;
}
