import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  createTestHub,
  LEGACY_HELLO,
  localServer,
  MODERN_HELLO,
  remoteServer,
  startScriptedServer,
} from "../../../test/support/mcp-hub.ts";
import type { JsonObject } from "../../core/json.ts";
import { openTelemetryTracer } from "../../telemetry/opentelemetry.ts";
import { createListeningSdk, type SeenSpan } from "../../telemetry/testing.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";
const TRACED = { trace: { traceparent: `00-${TRACE}-${SPAN}-01` } };

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "hub-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

const callOf = (spans: readonly SeenSpan[]) => spans.find(({ name }) => name.startsWith("tools/call"));

async function listened() {
  const sdk = createListeningSdk();
  return { sdk, tracer: await openTelemetryTracer() };
}

/** A server over HTTP with the given answer to a call. */
async function answering(hello: JsonObject, answer: JsonObject) {
  const isModern = hello === MODERN_HELLO;
  return startScriptedServer({
    ...(isModern ? { "server/discover": hello } : {}),
    initialize: (_message, response) => {
      response.setHeader("mcp-session-id", "their-session");
      return hello;
    },
    "tools/list": { tools: [{ name: "get", inputSchema: { type: "object" } }], resultType: "complete" },
    "tools/call": answer,
  });
}

describe("a request to a server", () => {
  test("over stdio has a span, and the server gets its trace context", async () => {
    const { sdk, tracer } = await listened();
    const journal = join(await temporaryFolder(), "journal");
    const { request } = await createTestHub(localServer("asking.mjs", {}, journal), { tracer });
    const _meta = { traceparent: "theirs", tracestate: "theirs=1", "example.com/x": 1 };

    await request("tools/call", { name: "log", arguments: { line: {} }, _meta }, TRACED);

    const span = callOf(sdk.spans());
    const lines = (await readFile(journal, "utf8")).split("\n");
    const sent = JSON.parse(lines.find((line) => line.includes("tools/call")) ?? "{}");
    expect(span).toMatchObject({ name: "tools/call log", kind: "CLIENT", traceId: TRACE, parent: SPAN });
    expect(span?.attributes).toEqual({
      "mcp.method.name": "tools/call",
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": "log",
      "mcp.protocol.version": expect.stringMatching(/^2025-/),
      "network.transport": "pipe",
      "jsonrpc.request.id": String(sent.id),
    });
    expect(sent.params._meta).toEqual({
      "example.com/x": 1,
      traceparent: `00-${TRACE}-${span?.id}-01`,
    });
  });

  test("over HTTP has the address and the session in its span", async () => {
    const { sdk, tracer } = await listened();
    const server = await answering(LEGACY_HELLO, { content: [] });
    const { hub, call } = await createTestHub(remoteServer(server.url), { tracer });

    await call("get", {}, TRACED);
    await hub.stop("subject");

    const { port } = new URL(server.url);
    const place = {
      "mcp.protocol.version": "2025-06-18",
      "network.transport": "tcp",
      "network.protocol.name": "http",
      "server.address": "127.0.0.1",
      "server.port": Number(port),
    };
    expect(callOf(sdk.spans())?.attributes).toMatchObject({ ...place, "mcp.session.id": "their-session" });
    const points = await sdk.points();
    expect(points.filter(({ metric }) => metric === "mcp.client.session.duration")).toMatchObject([
      { count: 1, attributes: place },
    ]);
    expect(JSON.stringify(points)).not.toContain("their-session");
    expect(JSON.stringify(points.filter(({ metric }) => metric.includes("session")))).not.toContain("error.type");
    expect(points).toContainEqual(
      expect.objectContaining({
        metric: "mcp.client.operation.duration",
        attributes: expect.objectContaining({ "mcp.method.name": "tools/call", "gen_ai.tool.name": "get", ...place }),
      }),
    );
  });

  test("has no session in the modern era", async () => {
    const { sdk, tracer } = await listened();
    const server = await answering(MODERN_HELLO, { content: [], resultType: "complete" });
    const { hub, call } = await createTestHub(remoteServer(server.url), { tracer });

    await call("get", {}, { trace: { ...TRACED.trace, tracestate: "vendor=1" } });
    await hub.stop("subject");

    const span = callOf(sdk.spans());
    expect(span?.attributes).toMatchObject({ "mcp.protocol.version": "2026-07-28" });
    expect(span?.attributes).not.toHaveProperty("mcp.session.id");
    expect((await sdk.points()).map(({ metric }) => metric)).not.toContain("mcp.client.session.duration");
    const sent = server.posted.find(({ method }) => method === "tools/call")?.params?._meta;
    expect(sent).toMatchObject({ traceparent: `00-${TRACE}-${span?.id}-01`, tracestate: "vendor=1" });
  });

  test.each<[string, JsonObject, JsonObject]>([
    [
      "an error",
      { error: { code: -32602, message: "no" } },
      { "error.type": "-32602", "rpc.response.status_code": "-32602" },
    ],
    ["a tool that failed", { content: [], isError: true }, { "error.type": "tool_error" }],
  ])("that is answered with %s has it in its span", async (_, answer, attributes) => {
    const { sdk, tracer } = await listened();
    const server = await answering(LEGACY_HELLO, answer);
    const { call } = await createTestHub(remoteServer(server.url), { tracer });

    await call("get").catch(() => undefined);

    expect(callOf(sdk.spans())).toMatchObject({ status: "ERROR", message: undefined, attributes });
  });

  test("that is cancelled, or whose server dies, has it in its span", async () => {
    const { sdk, tracer } = await listened();
    const journal = join(await temporaryFolder(), "journal");
    const { hub, call } = await createTestHub(localServer("asking.mjs", {}, journal), { tracer });
    const giving = new AbortController();
    const givenUp = call("hold", {}, { signal: giving.signal });
    await expect.poll(() => readFile(journal, "utf8").catch(() => "")).toContain("hold");
    giving.abort();
    await expect(givenUp).rejects.toMatchObject({ code: "cancelled" });
    const dying = call("hold");
    await expect.poll(() => readFile(journal, "utf8")).toMatch(/hold[\s\S]*hold/);
    process.kill(hub.status("subject").pid ?? 0, "SIGKILL");
    await expect(dying).rejects.toMatchObject({ code: "server_failed" });

    const calls = sdk.spans().filter(({ name }) => name === "tools/call hold");
    expect(calls.map(({ attributes }) => attributes["error.type"])).toEqual(["cancelled", "server_failed"]);
    const points = await sdk.points();
    expect(points.find(({ metric }) => metric === "mcp.client.session.duration")).toMatchObject({
      count: 1,
      attributes: { "error.type": "server_failed" },
    });
  });

  test("that is a list has a span of its own", async () => {
    const { sdk, tracer } = await listened();
    const { hub } = await createTestHub(localServer("plain.mjs"), { tracer });

    await hub.connect("subject");

    expect(sdk.spans()).toContainEqual(
      expect.objectContaining({ name: "tools/list", kind: "CLIENT", parent: undefined }),
    );
  });
});
