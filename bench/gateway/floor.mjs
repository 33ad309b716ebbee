/** The least that a gateway to a stdio server can do: HTTP in, a line of JSON out and in, HTTP out. It decides and records nothing. */
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { createInterface } from "node:readline";

const [command, ...args] = process.argv.slice(2);
const server = spawn(command, args, { stdio: ["pipe", "pipe", "ignore"] });
const waiting = new Map();
const send = (message, onAnswer) => {
  waiting.set(message.id, onAnswer);
  server.stdin.write(`${JSON.stringify(message)}\n`);
};
createInterface({ input: server.stdout }).on("line", (line) => {
  const { id, result } = JSON.parse(line);
  waiting.get(id)?.(result);
  waiting.delete(id);
});
let last = 0;
const listener = createServer(async (request, response) => {
  const chunks = await request.toArray();
  const { id, method, params } = JSON.parse(Buffer.concat(chunks).toString());
  send({ jsonrpc: "2.0", id: ++last, method, params }, (result) => {
    const body = JSON.stringify({ jsonrpc: "2.0", id, result });
    response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
    response.end(body);
  });
});
const clientInfo = { name: "floor", version: "1.0.0" };
send(
  {
    jsonrpc: "2.0",
    id: 0,
    method: "initialize",
    params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo },
  },
  () => {
    server.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })}\n`);
    listener.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${listener.address().port}/mcp`));
  },
);
