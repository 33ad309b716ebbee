import { setTimeout as pause } from "node:timers/promises";
import type { Client } from "@modelcontextprotocol/client";
import { connect, type Era } from "./driver.ts";
import type { Ground, Stand } from "./stand.ts";

/** One way for a client to reach the servers of a stand. */
export interface Gateway {
  readonly name: string;
  /** Those of one kind are prepared alike, so that once does for all of them. */
  readonly kind: string;
  readonly era: Era;
  /** What it needs once before it is opened: not timed. */
  prepare(stand: Stand): Promise<void>;
  /** From nothing to a client that is connected. */
  open(stand: Stand): Promise<Open>;
  /** What the client sends for a call of the echo of a server. */
  call(server: string): ToolCall;
  /** How many tools the client is shown once all is there: those of so many servers, or always the same. */
  shows(tools: number): number;
  /** Nobody has looked yet what its servers offer. Opening it may change that, so it is prepared each time. */
  readonly knowsNothing?: boolean;
  /** It takes so long for a call that it cannot be asked for as many as the others. */
  readonly slow?: boolean;
}

export interface ToolCall {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

export interface Open {
  readonly client: Client;
  /** Of the gateway, or of the server itself where there is none. Undefined: of a server that was up already. */
  readonly pid: number | undefined;
  close(): Promise<void>;
}

export const TEXT = "The quick brown fox jumps over the lazy dog.";

/** The floor: no gateway at all. Over HTTP the server is up already. */
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

/** Some take clients in before they have their servers' tools. */
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

/** Of a gateway there always is one. */
export function pidOf({ pid }: Open): number {
  if (pid === undefined) throw new Error("it has no process of its own");
  return pid;
}
