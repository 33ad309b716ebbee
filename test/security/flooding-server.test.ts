import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createBoundedFetch } from "../../src/mcp/hub/http-transport.ts";
import { createTestHub, localServer, remoteServer } from "../support/mcp-hub.ts";

// A server that sends endless messages delays neither the timeouts of its own calls nor other servers.

test("a flooding server on stdio delays no timer and no other server, and is stopped with a clear error", async () => {
  const { hub, request } = await createTestHub(
    [localServer("flooder.mjs"), { ...localServer("plain.mjs"), name: "other" }],
    {
      limits: { stdio: { flood: { burst: 20_000, perSecond: 1 } } },
    },
  );
  await hub.connect("subject");
  await hub.connect("other");
  const order: string[] = [];

  const limited = request("tools/call", { name: "echo" }, { signal: AbortSignal.timeout(300) });
  const flooded = request("tools/call", { name: "echo" });
  limited.catch(() => order.push("the limit"));
  flooded.catch(() => order.push("the flood"));
  const echoed = await hub.request(
    "other",
    { method: "tools/call", params: { name: "echo", arguments: { a: 1 } } },
    {},
  );
  order.push("the other server");

  expect(echoed).toMatchObject({ content: [{ text: '{"a":1}' }] });
  await expect(flooded).rejects.toMatchObject({ code: "server_failed", message: expect.stringContaining("flood") });
  await expect(limited).rejects.toBeDefined();
  expect(order.at(-1)).toBe("the flood");
  expect(hub.status("subject").problem).toContain("flood");
});

test("a flooding server over HTTP delays no timer, and its call fails", async () => {
  const url = await startFloodingServer();
  const { hub, request } = await createTestHub(remoteServer(url));
  await hub.connect("subject");
  const order: string[] = [];

  const limited = request("tools/call", { name: "echo" }, { signal: AbortSignal.timeout(300) });
  const flooded = request("tools/call", { name: "echo" });
  limited.catch(() => order.push("the limit"));
  flooded.catch(() => order.push("the flood"));

  await expect(flooded).rejects.toMatchObject({ code: "server_failed" });
  expect(order).toEqual(["the limit", "the flood"]);
});

test("a server on stdio that answers many calls is no flood", async () => {
  const flood = { burst: 20, perSecond: 1 };
  const { request } = await createTestHub(localServer("plain.mjs"), { limits: { stdio: { flood } } });

  const call = { name: "echo", arguments: { a: 1 } };
  for (let round = 0; round < 10; round++)
    await Promise.all(Array.from({ length: 20 }, () => request("tools/call", call)));
});

test("a server over HTTP that answers many calls with streams is no flood, and one that says or asks more is", async () => {
  const fetch = createBoundedFetch(1_000, { burst: 20, perSecond: 1 });
  let answers = 1;
  const server = createServer((_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end("id: 1\ndata:\n\ndata: {}\n\n".repeat(answers));
  });
  const url = await listen(server);
  const send = async (message: object) => {
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, ...message });
    return (await fetch(url, { method: "POST", body })).text();
  };
  const request = { method: "tools/call", params: {} };

  for (let calls = 0; calls < 100; calls++) await send(request);
  // As for its own questions, which it could ask without end.
  const answer = { result: { method: "tools/call" } };
  await expect(Promise.all(Array.from({ length: 30 }, () => send(answer)))).rejects.toThrow("flood of messages");
  answers = 20;
  await expect(send(request)).rejects.toThrow("flood of messages");
});

/** Starts a server that answers a call with an endless stream of notifications. */
async function startFloodingServer(): Promise<string> {
  const results: Record<string, object> = {
    initialize: {
      protocolVersion: "2025-06-18",
      capabilities: { tools: {} },
      serverInfo: { name: "flood", version: "1" },
    },
    "tools/list": { tools: [{ name: "echo", inputSchema: { type: "object" } }] },
  };
  const note = { jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: 1 } };
  const many = `data: ${JSON.stringify(note)}\n\n`.repeat(500);
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += String(chunk);
    const { id, method } = (body === "" ? {} : JSON.parse(body)) as { id?: number; method?: string };
    if (request.method !== "POST") return response.writeHead(405).end();
    if (id === undefined) return response.writeHead(202).end();
    if (method === "tools/call") {
      response.writeHead(200, { "content-type": "text/event-stream" });
      const flood = () => {
        while (!response.destroyed && response.write(many));
        if (!response.destroyed) response.once("drain", () => setImmediate(flood));
      };
      return flood();
    }
    const result = results[method ?? ""];
    const answer = result === undefined ? { error: { code: -32601, message: "no such method" } } : { result };
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
  });
  return (await listen(server)).href;
}

async function listen(server: Server): Promise<URL> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
}
