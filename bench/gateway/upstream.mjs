/**
 * The server that everybody stands in front of: tools that say what they are told, at no cost of their own.
 *
 * `node upstream.mjs stdio|http|exits|silent [--name text] [--tools n] [--boot-ms n] [--mark text]`
 *
 * Over HTTP it takes any free port and writes the address in one line. `--mark` means nothing here: it is how what is
 * left of a run is found among the processes.
 */
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { getRequestListener } from "@hono/node-server";
import {
  createMcpHandler,
  isLegacyRequest,
  Server,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    name: { type: "string", default: "upstream" },
    tools: { type: "string", default: "10" },
    "boot-ms": { type: "string", default: "0" },
    mark: { type: "string" },
  },
});
const kind = positionals[0] ?? "stdio";
const tools = Array.from({ length: Number(values.tools) }, (_, index) => ({
  name: index === 0 ? `${values.name}_echo` : `${values.name}_echo_${index}`,
  description: `Says what it is told, in voice ${index}, and does nothing else.`,
  inputSchema: {
    type: "object",
    properties: { text: { type: "string", description: "What to say." } },
    required: ["text"],
  },
  annotations: { readOnlyHint: true },
}));

if (kind === "exits") process.exit(1);
await pause(Number(values["boot-ms"]));
if (kind === "stdio") serveStdio(server);
else if (kind === "http") listen();
else process.stdin.on("end", () => process.exit()).resume();

function server() {
  const made = new Server({ name: values.name, version: "1.0.0" }, { capabilities: { tools: {} } });
  made.setRequestHandler("tools/list", () => ({ tools }));
  made.setRequestHandler("tools/call", ({ params }) => ({
    content: [{ type: "text", text: String(params.arguments?.text) }],
  }));
  return made;
}

/** Both eras, each in its cheapest way: sessions that are kept, answers without a stream. */
function listen() {
  const modern = createMcpHandler(server, { legacy: "reject" });
  const sessions = new Map();
  const fetch = async (request) => {
    const body = request.method === "POST" ? await request.json() : undefined;
    if (!(await isLegacyRequest(request, body))) return modern.fetch(request, { parsedBody: body });
    const known = sessions.get(request.headers.get("mcp-session-id"));
    return (known ?? (await session(sessions))).handleRequest(request, { parsedBody: body });
  };
  const listener = createServer(getRequestListener(fetch));
  listener.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${listener.address().port}/mcp`));
}

async function session(sessions) {
  const transport = new WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    enableJsonResponse: true,
    onsessioninitialized: (id) => void sessions.set(id, transport),
    onsessionclosed: (id) => void sessions.delete(id),
  });
  await server().connect(transport);
  return transport;
}
