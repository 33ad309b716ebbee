import { describe, expect, test } from "vitest";
import { type Gate, invoke, MODERN, openGate, saidBy } from "./testing.ts";

const META = {
  "io.modelcontextprotocol/protocolVersion": MODERN,
  "io.modelcontextprotocol/clientCapabilities": {},
};

async function sessionOf(gate: Gate): Promise<Readonly<Record<string, string>>> {
  const response = await gate.post({
    jsonrpc: "2.0",
    id: 0,
    method: "initialize",
    params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "x", version: "1" } },
  });
  await response.text();
  return { "mcp-session-id": response.headers.get("mcp-session-id") ?? "" };
}

/** Whether the next honest client is served. */
async function isWell(gate: Gate): Promise<boolean> {
  const client = await gate.client("modern");
  return saidBy(await invoke(client, "tool__echo", { text: "well" })).includes("well");
}

function nested(depth: number): string {
  return `${"[".repeat(depth)}${"]".repeat(depth)}`;
}

const modern = { "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "invoke_action" };

describe("a body that is not a message", () => {
  test.each([
    ["nothing", ""],
    ["garbage", "\u0000\u0001 not json"],
    ["half a message", '{"jsonrpc":"2.0","id":1,'],
    ["a text", '"hello"'],
    ["null", "null"],
    ["an empty batch", "[]"],
    ["a message of wrong types", '{"jsonrpc":2,"id":{},"method":7,"params":"x"}'],
    ["a method of another protocol", '{"jsonrpc":"1.0","id":1,"method":"tools/list"}'],
    ["depth", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":${nested(50_000)}}}`],
    ["a name of the prototype", '{"jsonrpc":"2.0","id":1,"method":"__proto__","params":{"__proto__":{"x":1}}}'],
  ])("refuses %s in both eras, and serves the next client", async (_which, body) => {
    const gate = await openGate();
    const session = await sessionOf(gate);

    const replies = [await gate.post(body), await gate.post(body, session), await gate.post(body, modern)];

    for (const reply of replies) {
      const text = await reply.text();
      expect(reply.status >= 400 || text.includes('"error"') || text === "").toBe(true);
      expect(reply.status).toBeLessThan(500);
    }
    expect(await isWell(gate)).toBe(true);
  });

  test("refuses another media type", async () => {
    const gate = await openGate();

    expect((await gate.post("{}", { "content-type": "text/plain" })).status).toBe(415);
  });
});

test("answers a legacy batch, and refuses one that is too long", async () => {
  const gate = await openGate();
  const session = await sessionOf(gate);
  const batch = (length: number) => Array.from({ length }, (_, id) => ({ jsonrpc: "2.0", id: id + 1, method: "ping" }));

  const short = await gate.post(batch(3), session);
  const long = await gate.post(batch(5_000), session);

  expect((await short.text()).match(/"result":\{\}/g)).toHaveLength(3);
  expect(long.status).toBe(400);
});

test("refuses an id that is still being answered, and accepts it afterwards", async () => {
  const gate = await openGate();
  const session = await sessionOf(gate);
  const hang = {
    jsonrpc: "2.0",
    id: 7,
    method: "tools/call",
    params: { name: "invoke_action", arguments: { action_name: "tool__hang" } },
  };
  const ping = { jsonrpc: "2.0", id: 7, method: "ping" };

  const running = await gate.post(hang, session);
  const second = await gate.post(ping, session);
  const twice = await gate.post(
    [
      { ...ping, id: 8 },
      { ...ping, id: 8 },
    ],
    session,
  );
  await gate.post({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 7 } }, session);
  // A cancelled request gets no answer, and its stream ends.
  await running.text();
  const third = await gate.post(ping, session);

  expect([second.status, twice.status, third.status]).toEqual([400, 400, 200]);
  expect(await third.text()).toContain('"result":{}');
});

test.each([
  ["an action's name that is an object", { action_name: {}, args: {} }],
  ["arguments that are a text", { action_name: "tool__echo", args: "x" }],
  ["no arguments at all", {}],
  ["a name of many characters", { action_name: "x".repeat(100_000) }],
])("answers %s with an error that a model can read", async (_which, args) => {
  const gate = await openGate();
  const client = await gate.client("modern");

  const result = await client.callTool({ name: "invoke_action", arguments: args });

  expect(result.isError).toBe(true);
  expect(JSON.stringify(result).length).toBeLessThan(20_000);
});

test("answers a tool call with wrong parameters with an error for its id", async () => {
  const gate = await openGate();
  const params = { name: 7, arguments: [], _meta: META };

  const reply = await gate.post(
    { jsonrpc: "2.0", id: "x", method: "tools/call", params },
    { ...modern, "mcp-name": "7" },
  );

  expect(await reply.json()).toMatchObject({ id: "x", error: { code: expect.any(Number) } });
});

test.each(["legacy", "modern"] as const)("refuses an unknown cursor in the %s era", async (era) => {
  const gate = await openGate();
  const client = await gate.client(era);

  await expect(client.listTools({ cursor: "made-up" })).rejects.toMatchObject({ code: -32602 });
});

test("limits sessions, and ends an idle one to make room", async () => {
  const gate = await openGate({ limits: { sessions: 3 } });
  const first = await sessionOf(gate);
  for (let n = 0; n < 5; n++) await sessionOf(gate);
  const ping = { jsonrpc: "2.0", id: 1, method: "ping" };

  expect((await gate.post(ping, first)).status).toBe(404);
  expect((await gate.post(ping, await sessionOf(gate))).status).toBe(200);
});

test("ends an idle session", async () => {
  const gate = await openGate({ limits: { sessionIdleMs: 40 } });
  const session = await sessionOf(gate);
  const get = () => fetch(gate.url, { method: "DELETE", headers: { authorization: "Bearer t", ...session } });

  // A request would count as use.
  await new Promise((resolve) => setTimeout(resolve, 300));

  expect((await get()).status).toBe(404);
});
