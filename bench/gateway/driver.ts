import {
  Client,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

/** How a client reaches a gateway or server. */
export type Address =
  | { readonly kind: "stdio"; readonly command: readonly string[]; readonly cwd: string; readonly env?: Variables }
  | { readonly kind: "http"; readonly url: string; readonly token?: string }
  | { readonly kind: "sse"; readonly url: string };

export type Variables = Readonly<Record<string, string>>;

export type Era = "legacy" | "modern";

export interface Connected {
  readonly client: Client;
  /** The id of the server process, if the client started it. */
  readonly pid: number | undefined;
}

/** All gateways get the same client, so its own cost is on both sides of every comparison. */
export async function connect(address: Address, era: Era = "legacy"): Promise<Connected> {
  const mode = era === "legacy" ? "legacy" : { pin: "2026-07-28" };
  const client = new Client({ name: "bench", version: "1.0.0" }, { versionNegotiation: { mode } });
  const transport = transportTo(address);
  await client.connect(transport, { timeout: PATIENCE_MS });
  return { client, pid: transport instanceof StdioClientTransport ? (transport.pid ?? undefined) : undefined };
}

/** Gateways that start all their servers before the first answer may take a while. */
export const PATIENCE_MS = 60_000;

function transportTo(address: Address): Transport {
  switch (address.kind) {
    case "stdio": {
      const [command = "", ...args] = address.command;
      const env = { ...(process.env as Variables), ...address.env };
      return new StdioClientTransport({ command, args, cwd: address.cwd, env, stderr: "ignore" });
    }
    case "http": {
      const headers = address.token === undefined ? {} : { authorization: `Bearer ${address.token}` };
      return new StreamableHTTPClientTransport(new URL(address.url), {
        requestInit: { headers },
        fetch: withoutSignal,
      });
    }
    case "sse":
      return new SSEClientTransport(new URL(address.url), { fetch: withoutSignal });
  }
}

/**
 * The transport passes one signal to all its requests, and each leaves a listener on it until it is collected. After 1,500
 * calls, every call would print a warning, which distorts the figures. Nothing here cancels a call.
 */
const withoutSignal: typeof fetch = (url, { signal, ...init } = {}) =>
  fetch(url, init.method === "POST" || signal === undefined ? init : { ...init, signal });
