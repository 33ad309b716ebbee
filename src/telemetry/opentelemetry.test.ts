import assert from "node:assert";
import * as api from "@opentelemetry/api";
import { describe, expect, test } from "vitest";
import type { TraceCarrier } from "../core/tracing.ts";
import { openTelemetryTracer } from "./opentelemetry.ts";
import { createListeningSdk } from "./testing.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";
const REMOTE: TraceCarrier = { traceparent: `00-${TRACE}-${SPAN}-01`, tracestate: "vendor=1" };

describe("a span", () => {
  test("has a name, a kind, defined attributes and an error code", async () => {
    const sdk = createListeningSdk();
    const tracer = await openTelemetryTracer({ version: "1.2.3" });

    const span = tracer.start("begun", "client", { text: "a", none: undefined, list: ["x", "y"] });
    span.set({ number: 1, none: undefined });
    span.rename("done");
    span.fail("denied", "because");
    span.end();

    expect(sdk.spans()).toMatchObject([{ name: "done", kind: "CLIENT", status: "ERROR", message: "because" }]);
    const [{ attributes } = { attributes: {} }] = sdk.spans();
    expect(attributes).toEqual({ text: "a", list: ["x", "y"], number: 1, "error.type": "denied" });
  });

  test("continues the trace of a remote parent, with its state", async () => {
    const sdk = createListeningSdk();
    const tracer = await openTelemetryTracer();

    const span = tracer.start("here", "server", {}, REMOTE);
    const carrier = span.carrier();
    span.end();

    const [seen] = sdk.spans();
    expect(seen).toMatchObject({ traceId: TRACE, parent: SPAN, parentIsRemote: true });
    expect(carrier).toEqual({ traceparent: `00-${TRACE}-${seen?.id}-01`, tracestate: "vendor=1" });
  });

  test("of a parent in this process is not remote", async () => {
    const sdk = createListeningSdk();
    const tracer = await openTelemetryTracer();

    const outer = tracer.start("outer", "internal", {});
    const inner = tracer.start("inner", "client", {}, outer.carrier());
    const copied = tracer.start("copied", "client", {}, { ...outer.carrier() });
    for (const span of [copied, inner, outer]) span.end();

    const [first, second, third] = sdk.spans();
    expect(second).toMatchObject({ name: "inner", parent: first?.id, parentIsRemote: false });
    expect(third).toMatchObject({ name: "copied", parent: first?.id, parentIsRemote: true });
  });

  test("without a parent belongs to the host's active span", async () => {
    const sdk = createListeningSdk();
    const tracer = await openTelemetryTracer();

    api.trace.getTracer("host").startActiveSpan("host", (host) => {
      tracer.start("ours", "internal", {}).end();
      host.end();
    });

    const [host, ours] = sdk.spans();
    expect(ours).toMatchObject({ name: "ours", parent: host?.id, links: [] });
  });

  test("of a request links to the span of its transport", async () => {
    const sdk = createListeningSdk();
    const tracer = await openTelemetryTracer();

    api.trace.getTracer("host").startActiveSpan("POST", (carrying) => {
      tracer.start("tools/call", "server", {}, REMOTE).end();
      tracer.start("execute_tool", "internal", {}, REMOTE).end();
      carrying.end();
    });

    const [post, request, call] = sdk.spans();
    expect(request).toMatchObject({ parent: SPAN, links: [post?.id] });
    expect(call).toMatchObject({ parent: SPAN, links: [] });
  });

  test("is the parent of spans within it, also after an await", async () => {
    const sdk = createListeningSdk();
    const tracer = await openTelemetryTracer();

    const ours = tracer.start("ours", "internal", {});
    const answer = await ours.within(async () => {
      await Promise.resolve();
      api.trace.getTracer("host").startSpan("theirs").end();
      return 7;
    });
    ours.end();

    const [first, second] = sdk.spans();
    expect(answer).toBe(7);
    expect(second).toMatchObject({ name: "theirs", parent: first?.id });
    let runs = 0;
    expect(() =>
      ours.within(() => {
        throw new Error(`of the work, run ${++runs}`);
      }),
    ).toThrow("of the work, run 1");
  });

  test.each<[string, TraceCarrier]>([
    ["nothing", {}],
    ["no trace", { traceparent: "hello" }],
    ["zeros", { traceparent: `00-${"0".repeat(32)}-${SPAN}-01` }],
    ["a version that cannot be", { traceparent: `ff-${TRACE}-${SPAN}-01` }],
    ["more than its version has", { traceparent: `00-${TRACE}-${SPAN}-01-more` }],
    ["upper case", { traceparent: `00-${TRACE.toUpperCase()}-${SPAN}-01` }],
    ["no text", { traceparent: 7 } as never],
    ["no text, and throws", { traceparent: { toString: () => assert.fail() } } as never],
  ])("of a parent that is %s starts a new trace", async (_, parent) => {
    const sdk = createListeningSdk();
    const tracer = await openTelemetryTracer();

    tracer.start("root", "server", {}, parent).end();

    expect(sdk.spans()).toMatchObject([{ name: "root", parent: undefined }]);
  });

  test("continues a trace of a later version, and one with a long state", async () => {
    const sdk = createListeningSdk();
    const tracer = await openTelemetryTracer();

    const span = tracer.start(
      "here",
      "server",
      {},
      { traceparent: `01-${TRACE}-${SPAN}-01-x`, tracestate: "v=".repeat(300) },
    );
    const carrier = span.carrier();
    span.end();

    expect(sdk.spans()).toMatchObject([{ traceId: TRACE, parent: SPAN }]);
    expect(carrier).not.toHaveProperty("tracestate");
  });
});

describe("the OpenTelemetry SDK", () => {
  test("can be registered after the tracer was created", async () => {
    const tracer = await openTelemetryTracer();
    tracer.start("unheard", "internal", {}).end();
    tracer.took("mcp.client.operation.duration", 1, {});
    const sdk = createListeningSdk();

    tracer.start("heard", "internal", {}).end();
    tracer.took("mcp.client.operation.duration", 2, {});

    expect(sdk.spans().map(({ name }) => name)).toEqual(["heard"]);
    expect(await sdk.points()).toMatchObject([{ metric: "mcp.client.operation.duration", count: 1, sum: 2 }]);
  });

  test("can be absent: a remote trace is still passed on", async () => {
    const tracer = await openTelemetryTracer();

    const through = tracer.start("through", "server", {}, REMOTE);

    expect(through.carrier()).toEqual(REMOTE);
    expect(tracer.start("begun", "server", {}).carrier()).toEqual({});
  });

  test("can be broken: the traced work goes on", async () => {
    const broken = (): never => {
      throw new Error("broken");
    };
    const deaf = { ...api, trace: { getTracer: broken }, metrics: { getMeterProvider: broken } };
    const stumbling = {
      ...api,
      context: { active: () => api.ROOT_CONTEXT, with: broken },
      trace: {
        setSpan: (context: unknown) => context,
        getTracer: () => ({
          startSpan: () => ({
            setAttributes: broken,
            setAttribute: broken,
            updateName: broken,
            end: broken,
            spanContext: () => api.INVALID_SPAN_CONTEXT,
          }),
        }),
      },
    };
    for (const each of [deaf, stumbling]) {
      const tracer = await openTelemetryTracer({ api: each as never });
      const span = tracer.start("a", "internal", {});
      span.set({ a: 1 });
      span.rename("b");
      span.fail("denied");
      tracer.took("any", 1, {});
      span.end();

      expect(span.within(() => 7)).toBe(7);
      expect(span.carrier()).toEqual({});
    }
  });
});

test("records durations in seconds with the boundaries of the conventions", async () => {
  const sdk = createListeningSdk();
  const tracer = await openTelemetryTracer();

  tracer.took("mcp.server.operation.duration", 0.25, { "mcp.method.name": "tools/call" });
  tracer.took("gen_ai.execute_tool.duration", 0.5, { "gen_ai.tool.name": "file__read" });
  tracer.took("gen_ai.execute_tool.duration", 1.5, { "gen_ai.tool.name": "file__read" });

  expect(await sdk.points()).toMatchObject([
    {
      metric: "mcp.server.operation.duration",
      unit: "s",
      boundaries: [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300],
      attributes: { "mcp.method.name": "tools/call" },
    },
    {
      metric: "gen_ai.execute_tool.duration",
      unit: "s",
      boundaries: [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
      count: 2,
      sum: 2,
    },
  ]);
});
