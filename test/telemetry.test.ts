import { readdirSync, readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import * as api from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import type { QuartermasterOptions } from "../src/app/options.ts";
import { createQuartermaster, type Quartermaster } from "../src/app/quartermaster.ts";
import { cleanUp, createTestFolder, start } from "../src/cli/testing.ts";
import type { Caller } from "../src/core/caller.ts";
import { openGateway } from "../src/mcp/gateway/create-gateway.ts";
import { openTelemetryTracer } from "../src/telemetry/opentelemetry.ts";
import { createListeningSdk, type ListeningSdk, type SeenSpan } from "../src/telemetry/testing.ts";
import { openWorkspace, type Workspace } from "../src/workspace/workspace.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";
const TRACEPARENT = `00-${TRACE}-${SPAN}-01`;
const asking = join(import.meta.dirname, "./fixtures/mcp-servers/asking.mjs");
const caller: Partial<Caller> = { session: "chat-1" };

afterEach(cleanUp);

async function createTraced(options: QuartermasterOptions = {}, content = false): Promise<Quartermaster> {
  const qm = await createQuartermaster({ tracer: await openTelemetryTracer({ content }), ...options });
  onTestFinished(qm.close);
  const common = { scope: "generalist", effect: "read", inputSchema: { type: "object" } } as const;
  qm.register({ ...common, name: "echo", description: "Says what it is told. And more.", handler: (args) => args });
  qm.register({
    ...common,
    name: "fail",
    description: "Fails.",
    handler: ({ password }) => {
      throw new Error(`no: ${password}`);
    },
  });
  qm.register({
    ...common,
    name: "outer",
    description: "Calls another.",
    handler: async (args, { invoke, trace }) => {
      const theirs = api.trace.getTracer("host").startSpan("theirs");
      theirs.end();
      await invoke("tool__echo", args);
      return { traceparent: trace?.traceparent ?? null };
    },
  });
  return qm;
}

const only = (sdk: ListeningSdk, name: string): SeenSpan => {
  const found = sdk.spans().filter((span) => span.name === name);
  expect(found).toHaveLength(1);
  return found[0] as SeenSpan;
};

describe("a call", () => {
  test("creates a span under the host's span and a metric point", async () => {
    const sdk = createListeningSdk();
    const qm = await createTraced();

    await api.trace.getTracer("host").startActiveSpan("host", async (host) => {
      await qm.invoke("echo", { a: 1 }, { caller });
      host.end();
    });

    const span = only(sdk, "execute_tool tool__echo");
    expect(span).toMatchObject({ kind: "INTERNAL", parent: only(sdk, "host").id, status: "UNSET" });
    const [{ data } = { data: {} }] = await qm.ledger.read({ type: "call.received" });
    expect(span.attributes).toEqual({
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": "tool__echo",
      "gen_ai.tool.call.id": (data as { callId: string }).callId,
      "gen_ai.tool.type": "function",
      "gen_ai.tool.description": "Says what it is told.",
      "gen_ai.agent.name": "default",
      "quartermaster.via": "library",
      "quartermaster.session": "chat-1",
      "quartermaster.actor": "default",
      "quartermaster.effect": "read",
      "quartermaster.policy.decision": "allow",
      "quartermaster.outcome": "done",
    });
    expect(await sdk.points()).toMatchObject([
      { metric: "gen_ai.execute_tool.duration", unit: "s", count: 1, attributes: { "gen_ai.tool.name": "tool__echo" } },
    ]);
  });

  test("is the parent of nested calls and of the handler's own spans", async () => {
    const sdk = createListeningSdk();
    const qm = await createTraced();

    const outcome = await qm.invoke("outer", {}, { caller, trace: { traceparent: TRACEPARENT } });

    const outer = only(sdk, "execute_tool tool__outer");
    expect(outer).toMatchObject({ traceId: TRACE, parent: SPAN, parentIsRemote: true });
    expect(only(sdk, "execute_tool tool__echo")).toMatchObject({ parent: outer.id, parentIsRemote: false });
    expect(only(sdk, "theirs")).toMatchObject({ parent: outer.id });
    expect(outcome).toMatchObject({ data: { traceparent: `00-${TRACE}-${outer.id}-01` } });
  });

  test("records a refusal by the policy, and no tool name for an unknown action", async () => {
    const sdk = createListeningSdk();
    const rule = { name: "no", rule: "tool.name == 'tool__echo'", effect: "deny" } as const;
    const qm = await createTraced({ policy: { rules: [rule] } });

    await qm.invoke("echo", {}, { caller });
    await qm.invoke("nothing", {}, { caller });

    expect(only(sdk, "execute_tool tool__echo")).toMatchObject({
      status: "ERROR",
      message: undefined,
      attributes: {
        "error.type": "denied",
        "quartermaster.policy.decision": "deny",
        "quartermaster.policy.layer": "tag-rules",
        "quartermaster.outcome": "refused",
      },
    });
    expect(only(sdk, "execute_tool")).toMatchObject({ attributes: { "error.type": "unknown_action" } });
    expect((await sdk.points()).map(({ attributes }) => attributes["gen_ai.tool.name"])).toEqual(["tool__echo"]);
  });

  test("records the approval id while it waits", async () => {
    const sdk = createListeningSdk();
    const rule = { name: "ask", rule: "tool.name == 'tool__echo'", effect: "ask" } as const;
    const qm = await createTraced({ policy: { rules: [rule] } });

    const outcome = await qm.invoke("echo", {}, { caller });

    const { approval } = outcome as Extract<typeof outcome, { status: "waiting" }>;
    expect(only(sdk, "execute_tool tool__echo")).toMatchObject({
      status: "UNSET",
      attributes: {
        "quartermaster.policy.decision": "ask",
        "quartermaster.outcome": "waiting",
        "quartermaster.approval.id": approval.id,
      },
    });
  });

  test("records arguments and results only on request, and never a secret", async () => {
    const secret = "hunter2-hunter2";
    const args = { password: secret, said: "aloud" };
    const redact = { secrets: () => [secret] };
    const silent = createListeningSdk();
    const quiet = await createTraced({ redact });
    await quiet.invoke("echo", args, { caller });
    await quiet.invoke("fail", args, { caller });
    expect(JSON.stringify([silent.spans(), await silent.points()])).not.toMatch(/hunter2|aloud/);
    for (const part of [api.trace, api.metrics, api.context]) part.disable();

    const sdk = createListeningSdk();
    const qm = await createTraced({ redact }, true);
    await qm.invoke("echo", args, { caller });
    await qm.invoke("fail", args, { caller });

    const said = '{"password":"[redacted]","said":"aloud"}';
    expect(only(sdk, "execute_tool tool__echo").attributes).toMatchObject({
      "gen_ai.tool.call.arguments": said,
      "gen_ai.tool.call.result": said,
    });
    expect(only(sdk, "execute_tool tool__fail")).toMatchObject({
      status: "ERROR",
      message: "tool__fail failed: no: [redacted]",
    });
    expect(JSON.stringify([sdk.spans(), await sdk.points()])).not.toContain("hunter2");
  });
});

/** A workspace with a server that logs the messages it receives, and a client of its gateway. */
async function workspaceWith(telemetry: object) {
  const folder = await createTestFolder();
  const journal = join(folder, "journal");
  const servers = { asking: { command: process.execPath, args: [asking, journal] } };
  await writeFile(join(folder, "quartermaster.yaml"), JSON.stringify({ servers, telemetry }));
  const env = { PATH: process.env.PATH, OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" };
  const workspace: Workspace = await openWorkspace({ cwd: folder, env });
  onTestFinished(workspace.close);
  await workspace.servers.hub.connect("asking");
  const gateway = openGateway(workspace, () => {});
  onTestFinished(gateway.close);
  const { url, tokenPath } = await gateway.listen({ port: 0 });
  const client = new Client({ name: "tester", version: "1" });
  const headers = { authorization: `Bearer ${(await readFile(tokenPath, "utf8")).trim()}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  onTestFinished(() => client.close());
  const call = { action_name: "mcp__asking__log", args: { line: {} } };
  return {
    call: () =>
      client.request({
        method: "tools/call",
        params: { name: "invoke_action", arguments: call, _meta: { traceparent: TRACEPARENT } },
      }),
    async sent() {
      const lines = (await readFile(journal, "utf8")).split("\n");
      return JSON.parse(lines.find((line) => line.includes("tools/call")) ?? "{}");
    },
  };
}

describe("a call through the gateway to a server", () => {
  test("is one trace: the client's request, the call and the request to the server", async () => {
    const sdk = createListeningSdk();
    // Not every host keeps a context across an await.
    api.context.disable();
    const { call, sent } = await workspaceWith({ enabled: true });

    await call();

    const request = only(sdk, "tools/call invoke_action");
    const action = only(sdk, "execute_tool mcp__asking__log");
    const further = only(sdk, "tools/call log");
    expect(request).toMatchObject({ kind: "SERVER", traceId: TRACE, parent: SPAN, parentIsRemote: true });
    expect(action).toMatchObject({ kind: "INTERNAL", traceId: TRACE, parent: request.id, parentIsRemote: false });
    expect(further).toMatchObject({ kind: "CLIENT", traceId: TRACE, parent: action.id, parentIsRemote: false });
    expect(action.attributes).toMatchObject({ "gen_ai.tool.type": "extension", "quartermaster.via": "universal" });
    expect((await sent()).params._meta.traceparent).toBe(`00-${TRACE}-${further.id}-01`);
    const metrics = new Set((await sdk.points()).map(({ metric }) => metric));
    expect([...metrics].sort()).toEqual([
      "gen_ai.execute_tool.duration",
      "mcp.client.operation.duration",
      "mcp.server.operation.duration",
    ]);
  });

  test("produces no telemetry unless it is configured", async () => {
    const sdk = createListeningSdk();
    const { call, sent } = await workspaceWith({});

    await call();

    expect(sdk.spans()).toEqual([]);
    expect(await sdk.points()).toEqual([]);
    expect((await sent()).params._meta ?? {}).not.toHaveProperty("traceparent");
  });
});

describe("a collector over OTLP", () => {
  test("gets the spans of a program", async () => {
    const { url, readScopes } = await startCollector();
    const sdk = createListeningSdk(new OTLPTraceExporter({ url: `${url}/v1/traces` }));
    const qm = await createTraced();

    await qm.invoke("echo", {}, { caller, trace: { traceparent: TRACEPARENT } });
    await sdk.flush();

    const [scope] = readScopes();
    expect(scope?.scope).toMatchObject({ name: "quartermaster" });
    expect(scope?.spans).toMatchObject([
      { name: "execute_tool tool__echo", kind: 1, traceId: TRACE, parentSpanId: SPAN, status: { code: 0 } },
    ]);
  });

  test("gets the spans of a command before it exits", async () => {
    const { url, readScopes } = await startCollector();

    expect(await runTracedCommand(url)).toMatchObject({ code: 0, err: "" });

    expect(readScopes().flatMap(({ spans }) => spans)).toMatchObject([{ name: "execute_tool file__list" }]);
  });

  test("that is absent costs a command neither its result nor its output", async () => {
    const { url, close } = await startCollector();
    close();

    expect(await runTracedCommand(url)).toMatchObject({ code: 0, err: "", out: expect.stringContaining("entries") });
  });

  test("that never answers does not keep a command from ending", async () => {
    const { url, readScopes } = await startCollector(false);

    expect(await runTracedCommand(url)).toMatchObject({ code: 0, err: "", out: expect.stringContaining("entries") });

    expect(readScopes()).toHaveLength(1);
  });
});

type OtlpScope = { readonly scope: object; readonly spans: readonly Record<string, unknown>[] };

async function startCollector(isAnswering = true) {
  const bodies: { resourceSpans: { scopeSpans: OtlpScope[] }[] }[] = [];
  const collector = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    bodies.push(JSON.parse(Buffer.concat(chunks).toString("utf8")));
    if (isAnswering) response.writeHead(200, { "content-type": "application/json" }).end("{}");
  });
  await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve));
  const close = () => {
    collector.close();
    collector.closeAllConnections();
  };
  onTestFinished(close);
  return {
    url: `http://127.0.0.1:${(collector.address() as AddressInfo).port}`,
    close,
    readScopes: () => bodies.flatMap(({ resourceSpans }) => resourceSpans.flatMap(({ scopeSpans }) => scopeSpans)),
  };
}

/** One call in a process of its own, with the SDK loaded as docs/guides/observe.md says. */
async function runTracedCommand(url: string) {
  const cwd = await createTestFolder({ "quartermaster.yaml": "telemetry: { enabled: true }\n" });
  const sdk = pathToFileURL(join(import.meta.dirname, "fixtures/instrumentation.mjs")).href;
  const minutes = String(600_000);
  return start(cwd, ["invoke", "file__list", "{}"], {
    NODE_OPTIONS: `--import ${sdk}`,
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    OTEL_EXPORTER_OTLP_TIMEOUT: minutes,
    OTEL_BSP_SCHEDULE_DELAY: minutes,
    OTEL_BSP_EXPORT_TIMEOUT: minutes,
  }).ended;
}

test("does not load OpenTelemetry until it is used", () => {
  const root = join(import.meta.dirname, "../src");
  const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter(
    (path) => path.endsWith(".ts") && !/(?:\.test|testing)\.ts$/.test(path),
  );

  const loading = files.filter((path) =>
    /^(?:import|export)(?! type)[^;]*"@opentelemetry\//m.test(readFileSync(join(root, path), "utf8")),
  );

  expect(files).toContain(join("telemetry", "opentelemetry.ts"));
  expect(loading).toEqual([]);
});
