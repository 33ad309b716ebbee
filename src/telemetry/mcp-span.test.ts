import { describe, expect, test } from "vitest";
import { silentTracer } from "../core/tracing.ts";
import { startMcpSpan, type TracedRequest } from "./mcp-span.ts";
import { openTelemetryTracer } from "./opentelemetry.ts";
import { createListeningSdk } from "./testing.ts";

const request: TracedRequest = {
  side: "server",
  method: "tools/call",
  params: { name: "get-weather", arguments: { city: "secret" } },
  id: 7,
  connection: { "mcp.protocol.version": "2025-11-25", "network.transport": "pipe" },
  session: "s-1",
};

async function begun(given: Partial<TracedRequest> = {}) {
  const sdk = createListeningSdk();
  let now = 0;
  const span = startMcpSpan({ tracer: await openTelemetryTracer({ content: true }), elapsed: () => now }, () => ({
    ...request,
    ...given,
  }));
  now = 500;
  return {
    span,
    seen: async () => {
      const [first] = sdk.spans();
      const [point] = await sdk.points();
      return { span: first, attributes: first?.attributes, point };
    },
  };
}

test("traces a tool call by the conventions, without content", async () => {
  const { span, seen } = await begun();

  span.answered({ content: [{ type: "text", text: "secret" }] });

  const told = await seen();
  expect(told.span).toMatchObject({ name: "tools/call get-weather", kind: "SERVER", status: "UNSET" });
  expect(told.attributes).toEqual({
    "mcp.method.name": "tools/call",
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "get-weather",
    "mcp.protocol.version": "2025-11-25",
    "network.transport": "pipe",
    "mcp.session.id": "s-1",
    "jsonrpc.request.id": "7",
  });
  expect(told.point).toMatchObject({ metric: "mcp.server.operation.duration", sum: 0.5, count: 1 });
  expect(told.point?.attributes).toEqual({
    "mcp.method.name": "tools/call",
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "get-weather",
    "mcp.protocol.version": "2025-11-25",
    "network.transport": "pipe",
  });
});

test.each<[string, Partial<TracedRequest>, string, object]>([
  [
    "a prompt",
    { method: "prompts/get", params: { name: "analyze" } },
    "prompts/get analyze",
    { "gen_ai.prompt.name": "analyze" },
  ],
  ["a list", { method: "tools/list", params: undefined, id: undefined }, "tools/list", {}],
  ["a name that is no text", { params: { name: { toString: null } } }, "tools/call", {}],
  [
    "a resource, whose address may hold a secret",
    { method: "resources/read", params: { uri: "https://me:pass@host/a?token=t#x" } },
    "resources/read",
    { "mcp.resource.uri": "https://host/a" },
  ],
])("traces %s by its method and target", async (_, given, name, attributes) => {
  const { span, seen } = await begun({ ...given, session: undefined });

  span.answered({});

  const told = await seen();
  const constant = /^(?:mcp\.(?:method|protocol|session)|network|jsonrpc|gen_ai\.operation)/;
  const target = Object.entries(told.attributes ?? {}).filter(([key]) => !constant.test(key));
  expect(told.span?.name).toBe(name);
  expect(Object.fromEntries(target)).toEqual(attributes);
  expect(JSON.stringify(told)).not.toMatch(/pass|token/);
});

test("cuts a long name", async () => {
  const { span, seen } = await begun({ params: { name: "x".repeat(10_000) } });

  span.answered({});

  expect((await seen()).span?.name.length).toBeLessThan(150);
});

test("sets the id when the request is sent", async () => {
  const { span, seen } = await begun({ id: undefined });

  span.sent(12);
  span.answered({});

  expect((await seen()).attributes).toMatchObject({ "jsonrpc.request.id": "12" });
});

describe("an error", () => {
  test("of a tool has the type tool_error", async () => {
    const { span, seen } = await begun();

    span.answered({ isError: true, content: [] });

    const told = await seen();
    expect(told.span).toMatchObject({
      status: "ERROR",
      message: undefined,
      attributes: { "error.type": "tool_error" },
    });
    expect(told.point).toMatchObject({ attributes: { "error.type": "tool_error" } });
  });

  test.each([-32700, -32600, -32601, -32602, -32002])(
    "of the caller (%d) does not fail the server's span",
    async (code) => {
      const { span, seen } = await begun();

      span.failed(code);

      const told = await seen();
      expect(told.span).toMatchObject({ status: "UNSET", attributes: { "rpc.response.status_code": String(code) } });
      expect(told.attributes).not.toHaveProperty("error.type");
      expect(told.point?.attributes).not.toHaveProperty("error.type");
    },
  );

  test.each([-32602, -32603, -32000, 4711])("fails the client's span: %d", async (code) => {
    const { span, seen } = await begun({ side: "client" });

    span.failed(code);

    const told = await seen();
    const facts = { "error.type": String(code), "rpc.response.status_code": String(code) };
    expect(told.span).toMatchObject({ kind: "CLIENT", status: "ERROR", attributes: facts });
    expect(told.point).toMatchObject({ metric: "mcp.client.operation.duration", attributes: facts });
  });

  test("without an answer has our error code", async () => {
    const { span, seen } = await begun();

    span.failed("cancelled");

    const told = await seen();
    expect(told.span).toMatchObject({ status: "ERROR", attributes: { "error.type": "cancelled" } });
    expect(told.attributes).not.toHaveProperty("rpc.response.status_code");
  });

  test("with an unknown name creates no time series", async () => {
    const { span, seen } = await begun();

    span.failed(-32602);

    const told = await seen();
    expect(told.attributes).toHaveProperty("gen_ai.tool.name");
    expect(told.point?.attributes).not.toHaveProperty("gen_ai.tool.name");
  });
});

test("does nothing for the silent tracer", () => {
  const describeRequest = (): never => {
    throw new Error("looked at");
  };

  const span = startMcpSpan({ tracer: silentTracer, elapsed: () => 0 }, describeRequest);

  span.failed(-1);
  expect(span.carrier()).toEqual({});
});
