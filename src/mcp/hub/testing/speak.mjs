import { createInterface } from "node:readline";

/** A server of few words, without the SDK, for tests of what surrounds it: answers what clients ask first, and `echo`. */
export const answers = {
  initialize: ({ protocolVersion = "2025-06-18" } = {}) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "fixture", version: "1.0.0" },
  }),
  ping: () => ({}),
  "tools/list": () => ({
    tools: [{ name: "echo", description: "Say it again.", inputSchema: { type: "object" } }],
  }),
  "tools/call": ({ arguments: given }) => ({ content: [{ type: "text", text: JSON.stringify(given ?? {}) }] }),
};

export function write(message) {
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
}

/** Answers until stdin ends; then the process ends by itself if nothing else holds it. */
export function speak(own = {}) {
  const known = { ...answers, ...own };
  createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined || method === undefined) return;
    const answer = known[method];
    if (answer === undefined) write({ id, error: { code: -32601, message: `no method ${method}` } });
    else write({ id, result: answer(params) });
  });
}
