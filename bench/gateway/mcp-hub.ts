import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Gateway, TEXT } from "./gateway.ts";
import { connectWhenUp, freePort, mcpHubScript } from "./peers.ts";
import type { Stand } from "./stand.ts";
import { start } from "./started.ts";

/** It starts every server at once, and has one transport: HTTP with server-sent events. */
export function mcpHub(): Gateway {
  return {
    name: "mcp-hub 4.2.1, SSE",
    kind: "mcp-hub",
    era: "legacy",
    async prepare(stand) {
      writeFileSync(join(stand.folder, "servers.json"), JSON.stringify({ mcpServers: configuration(stand) }));
    },
    async open({ folder, env }) {
      const port = await freePort();
      const command = [
        process.execPath,
        mcpHubScript,
        "--port",
        String(port),
        "--config",
        join(folder, "servers.json"),
      ];
      const { pid, exited, stop } = start(command, { cwd: folder, env });
      const { client } = await connectWhenUp({ kind: "sse", url: `http://localhost:${port}/mcp` }, exited);
      return { client, pid, close: () => client.close().then(stop) };
    },
    call: (server) => ({ name: `${server}__${server}_echo`, arguments: { text: TEXT } }),
    shows: (tools) => tools,
  };
}

function configuration({ servers }: Stand): object {
  return Object.fromEntries(
    Object.entries(servers).map(([name, upstream]) => {
      if (upstream.kind === "http") return [name, { url: upstream.url }];
      const [command, ...args] = upstream.command;
      return [name, { command, args }];
    }),
  );
}
