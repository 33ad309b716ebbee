import { appendFileSync } from "node:fs";
import { Server } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

/** A server of 2026-07-28 that refuses to speak as before. Notes each of its starts in the file it is given. */
if (process.argv[2]) appendFileSync(process.argv[2], "started\n");

serveStdio(
  () => {
    const server = new Server({ name: "modern", version: "1.0.0" }, { capabilities: { tools: {} } });
    server.setRequestHandler("tools/list", () => ({ tools: [{ name: "echo", inputSchema: { type: "object" } }] }));
    server.setRequestHandler("tools/call", ({ params }) => ({
      content: [{ type: "text", text: JSON.stringify(params.arguments) }],
    }));
    return server;
  },
  { legacy: "reject" },
);
