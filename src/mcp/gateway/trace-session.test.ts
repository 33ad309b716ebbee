import { expect, test } from "vitest";
import { MODERN, openGate } from "./testing.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";

test.each([
  ["a trace", { traceparent: `00-${TRACE}-b7ad6b7169203331-01` }, new RegExp(`^mcp:plain:[0-9a-f]{16}:${TRACE}$`)],
  [
    "what is no trace",
    { traceparent: `00-${TRACE.slice(1)}-b7ad6b7169203331-01` },
    /^mcp:plain:[0-9a-f]{16}@[0-9a-z]{9}$/,
  ],
  ["nothing", {}, /^mcp:plain:[0-9a-f]{16}@[0-9a-z]{9}$/],
])("a modern request with %s belongs to the right session", async (_, said, session) => {
  const gate = await openGate();
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    ...said,
  };
  const params = { name: "invoke_action", arguments: { action_name: "tool__echo", args: {} }, _meta };
  const headers = { "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "invoke_action" };

  const response = await gate.post({ jsonrpc: "2.0", id: 1, method: "tools/call", params }, headers);
  await response.text();

  const calls = (await gate.qm.ledger.read({})).filter(({ type }) => type === "call.received");
  expect(calls).toMatchObject([{ session: expect.stringMatching(session) }]);
});
