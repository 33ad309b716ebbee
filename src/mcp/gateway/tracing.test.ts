import { PassThrough } from "node:stream";
import { describe, expect, test } from "vitest";
import type { JsonObject } from "../../core/json.ts";
import { openTelemetryTracer } from "../../telemetry/opentelemetry.ts";
import { createListeningSdk, type ListeningSdk, type SeenSpan } from "../../telemetry/testing.ts";
import type { GatewayEra } from "./gateway.ts";
import { type Gate, invoke, MODERN, openGate, profileWith } from "./testing.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";
const TRACED = { traceparent: `00-${TRACE}-${SPAN}-01` };

async function traced(): Promise<{ readonly gate: Gate; readonly sdk: ListeningSdk }> {
  const sdk = createListeningSdk();
  return { gate: await openGate({ tracer: await openTelemetryTracer() }), sdk };
}

const named = (sdk: ListeningSdk, name: string): SeenSpan | undefined =>
  sdk.spans().findLast((span) => span.name === name);

describe.each<GatewayEra>(["legacy", "modern"])("a call of a client of the %s era", (era) => {
  test("is a span of the client's trace, with the action's call below it", async () => {
    const { gate, sdk } = await traced();
    const client = await gate.client(era);

    await client.request({
      method: "tools/call",
      params: { name: "invoke_action", arguments: { action_name: "tool__echo", args: {} }, _meta: TRACED },
    });

    const request = named(sdk, "tools/call invoke_action");
    const call = named(sdk, "execute_tool tool__echo");
    expect(request).toMatchObject({ kind: "SERVER", traceId: TRACE, parent: SPAN, status: "UNSET" });
    expect(call).toMatchObject({ kind: "INTERNAL", traceId: TRACE, parent: request?.id, parentIsRemote: false });
    expect(request?.attributes).toEqual({
      "mcp.method.name": "tools/call",
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": "invoke_action",
      "mcp.protocol.version": era === "modern" ? MODERN : "2025-11-25",
      "network.transport": "tcp",
      "network.protocol.name": "http",
      "jsonrpc.request.id": expect.stringMatching(/^\d+$/),
      ...(era === "modern" ? {} : { "mcp.session.id": expect.stringMatching(/^[0-9a-f-]{36}$/) }),
    });
    expect(await sdk.points()).toContainEqual(
      expect.objectContaining({
        metric: "mcp.server.operation.duration",
        attributes: expect.objectContaining({ "mcp.method.name": "tools/call", "gen_ai.tool.name": "invoke_action" }),
      }),
    );
  });

  test("of an unknown tool is the client's error", async () => {
    const { gate, sdk } = await traced();
    const client = await gate.client(era);

    await expect(client.callTool({ name: "nothing", arguments: {} })).rejects.toMatchObject({ code: -32602 });

    expect(named(sdk, "tools/call nothing")).toMatchObject({
      status: "UNSET",
      attributes: { "rpc.response.status_code": "-32602" },
    });
  });

  test("that fails is an error of the tool", async () => {
    const { gate, sdk } = await traced();
    const client = await gate.client(era);

    await invoke(client, "tool__nothing");

    expect(named(sdk, "tools/call invoke_action")).toMatchObject({
      status: "ERROR",
      attributes: { "error.type": "tool_error" },
    });
  });

  test("that the client cancels is marked as cancelled", async () => {
    const { gate, sdk } = await traced();
    const client = await gate.client(era);
    const giving = new AbortController();
    const given = invoke(client, "tool__hang", { name: "a" }, { signal: giving.signal });
    await expect.poll(() => gate.hanging).toEqual(["a"]);

    giving.abort();
    await expect(given).rejects.toThrow();

    await expect.poll(() => named(sdk, "tools/call invoke_action")?.attributes["error.type"]).toBe("cancelled");
    await expect.poll(() => named(sdk, "execute_tool tool__hang")?.attributes["error.type"]).toBe("cancelled");
  });
});

test("traces requests that the SDK answers, and the session's duration", async () => {
  const { gate, sdk } = await traced();
  const client = await gate.client("legacy");
  await client.listTools();

  await client.close();
  await gate.gateway.close();

  expect(sdk.spans().map(({ name }) => name)).toEqual(["initialize", "tools/list"]);
  const sessions = (await sdk.points()).filter(({ metric }) => metric === "mcp.server.session.duration");
  expect(sessions).toMatchObject([
    { count: 1, unit: "s", attributes: { "mcp.protocol.version": "2025-11-25", "network.transport": "tcp" } },
  ]);
});

test("a request that continues a call has its own span, and the call keeps its trace", async () => {
  const { gate, sdk } = await traced();
  const client = await gate.client("modern", "t", {
    capabilities: { elicitation: { form: {} } },
    inputRequired: { autoFulfill: true },
  });
  client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { name: "x", colour: "y" } }));

  await invoke(client, "tool__greet");

  const requests = sdk.spans().filter(({ name }) => name === "tools/call invoke_action");
  const calls = sdk.spans().filter(({ name }) => name === "execute_tool tool__greet");
  expect(requests).toHaveLength(3);
  expect(requests.map(({ status }) => status)).toEqual(["UNSET", "UNSET", "UNSET"]);
  expect(calls).toMatchObject([{ parent: requests[0]?.id }]);
});

test("reports neither a network nor a session over stdio", async () => {
  const { gate, sdk } = await traced();
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const stop = new AbortController();
  const serving = gate.gateway.serveStdio({ stdin, stdout, profile: profileWith(), signal: stop.signal });
  const said: string[] = [];
  stdout.on("data", (chunk) => said.push(String(chunk)));
  const say = (message: JsonObject) => stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);

  const clientInfo = { name: "tester", version: "1" };
  say({ id: 1, method: "initialize", params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo } });
  await expect.poll(() => said.join("")).toContain('"id":1');
  say({ method: "notifications/initialized" });
  say({ id: "two", method: "tools/list" });
  await expect.poll(() => said.join("")).toContain('"id":"two"');
  stop.abort();
  await serving;

  const attributes = named(sdk, "tools/list")?.attributes;
  expect(attributes).toEqual({
    "mcp.method.name": "tools/list",
    "mcp.protocol.version": "2025-06-18",
    "network.transport": "pipe",
    "jsonrpc.request.id": "two",
  });
});
