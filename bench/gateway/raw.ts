import { Agent, request } from "node:http";
import { fileURLToPath } from "node:url";
import type { Gateway, ToolCaller } from "./gateway.ts";
import { TEXT } from "./gateway.ts";
import { start } from "./started.ts";

const FLOOR = fileURLToPath(new URL("floor.mjs", import.meta.url));
const VERSION = "2025-11-25";

/** The least that a gateway to a stdio server can cost. It has no protocol: a client needs no handshake. */
export function floor(): Gateway {
  return {
    name: "floor, 20 lines, raw client",
    kind: "floor",
    era: "legacy",
    isRaw: true,
    prepare: async () => {},
    async open({ folder, servers, env }) {
      const [upstream] = Object.values(servers);
      if (upstream?.kind !== "stdio") throw new Error("the floor needs a server on stdio");
      const { pid, firstLine, stop } = start([process.execPath, FLOOR, ...upstream.command], { cwd: folder, env });
      const client = new RawClient(await firstLine);
      return { client, pid, close: () => client.close().then(stop) };
    },
    call: (server) => ({ name: `${server}_echo`, arguments: { text: TEXT } }),
    shows: (tools) => tools,
  };
}

/** Calls tools over HTTP without an MCP client, which costs more than a gateway. */
export class RawClient implements ToolCaller {
  readonly #url: string;
  readonly #headers: Record<string, string>;
  readonly #agent = new Agent({ keepAlive: true });
  #last = 0;

  constructor(url: string, headers: Readonly<Record<string, string>> = {}) {
    this.#url = url;
    this.#headers = { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers };
  }

  /** Opens a session. */
  async initialize(): Promise<void> {
    const clientInfo = { name: "bench", version: "1.0.0" };
    const params = { protocolVersion: VERSION, capabilities: {}, clientInfo };
    const { session } = await this.#post({ id: ++this.#last, method: "initialize", params });
    if (session === undefined) throw new Error("the gateway opened no session");
    Object.assign(this.#headers, { "mcp-session-id": session, "mcp-protocol-version": VERSION });
    await this.#post({ method: "notifications/initialized" });
  }

  async callTool(params: object): Promise<{ readonly isError?: boolean; readonly content?: unknown }> {
    const { text } = await this.#post({ id: ++this.#last, method: "tools/call", params });
    // The answer is one JSON document, or a stream with one event.
    const { result, error } = JSON.parse(
      text.startsWith("{") ? text : text.slice(text.indexOf("{"), text.lastIndexOf("}") + 1),
    );
    return result ?? { isError: true, content: error };
  }

  async close(): Promise<void> {
    this.#agent.destroy();
  }

  #post(message: object): Promise<{ readonly text: string; readonly session: string | undefined }> {
    const body = JSON.stringify({ jsonrpc: "2.0", ...message });
    const headers = { ...this.#headers, "content-length": Buffer.byteLength(body) };
    return new Promise((resolve, reject) => {
      const sent = request(this.#url, { method: "POST", agent: this.#agent, headers }, (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (part: string) => {
          text += part;
        });
        response.on("end", () => resolve({ text, session: response.headers["mcp-session-id"]?.toString() }));
      });
      sent.on("error", reject);
      sent.end(body);
    });
  }
}
