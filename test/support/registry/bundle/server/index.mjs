// A complete MCP server without dependencies: one tool, which echoes its arguments.
import { createInterface } from "node:readline";

const tool = {
  name: "note",
  description: "Keep a short note.",
  inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
};

function answer({ method, params }) {
  if (method === "initialize") {
    const { protocolVersion } = params;
    return { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "notes", version: "1.0.0" } };
  }
  if (method === "tools/list") return { tools: [tool] };
  if (method === "tools/call") return { content: [{ type: "text", text: `noted: ${params.arguments?.text}` }] };
  return method === "ping" ? {} : undefined;
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  if (request.id === undefined) continue;
  const result = answer(request);
  const error = { code: -32601, message: "there is no such method" };
  const message = { jsonrpc: "2.0", id: request.id, ...(result === undefined ? { error } : { result }) };
  process.stdout.write(`${JSON.stringify(message)}\n`);
}
