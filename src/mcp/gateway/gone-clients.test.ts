import { expect, test } from "vitest";
import { fixtureServer } from "../../../conformance/fixture-server.ts";
import { connectUpstream, type Gate, MODERN, openGate, profileWith } from "./testing.ts";

const profile = profileWith();
const accept = "application/json, text/event-stream";

/** A request of a client that may have hung up before it is handled. */
function ask(gate: Gate, init: RequestInit & { readonly headers?: Readonly<Record<string, string>> }) {
  const headers = { accept, "content-type": "application/json", ...init.headers };
  return gate.gateway.fetch(new Request(gate.url, { ...init, headers }), profile, { principal: "ann" });
}

test("an aborted stream does not keep its session alive", async () => {
  const gate = await openGate({ limits: { sessions: 1 } });
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "x", version: "1" } };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params });
  const first = await ask(gate, { method: "POST", body });
  await first.text();
  const headers = { "mcp-session-id": first.headers.get("mcp-session-id") ?? "" };

  const stream = await ask(gate, { method: "GET", headers, signal: AbortSignal.abort() });
  const second = await ask(gate, { method: "POST", body });

  expect(stream.status).toBe(200);
  expect(second.status).toBe(200);
});

test("does not subscribe for a client that has already hung up", async () => {
  const gate = await openGate({ behind: await connectUpstream("fixture", fixtureServer, "legacy") });
  const uri = "test://watched-resource";
  const body = JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    method: "subscriptions/listen",
    params: {
      notifications: { resourceSubscriptions: [uri] },
      _meta: {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
      },
    },
  });
  const headers = { "mcp-protocol-version": MODERN, "mcp-method": "subscriptions/listen" };
  const asked = async () => (await gate.qm.ledger.read({})).filter(({ type }) => type === "call.received");

  const response = await ask(gate, { method: "POST", headers, body, signal: AbortSignal.abort() });

  expect(response.ok).toBe(true);
  await new Promise((resolve) => setImmediate(resolve));
  expect(await asked()).toEqual([]);
});
