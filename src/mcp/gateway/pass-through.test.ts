import { type CallToolResult, Server } from "@modelcontextprotocol/server";
import { describe, expect, test, vi } from "vitest";
import { fixtureServer } from "../../../conformance/fixture-server.ts";
import { connectUpstream, MODERN, openGate, saidBy } from "./testing.ts";

const both = ["legacy", "modern"] as const;
const profiles = { t: { passThrough: ["*"] } };

/** A server with unusual definitions and results. */
function oddServer(): Server {
  const server = new Server({ name: "odd", version: "1" }, { capabilities: { tools: {}, resources: {}, prompts: {} } });
  const rows = { type: "array", items: { type: "integer" } };
  const tools = [
    {
      name: "rows",
      title: "Rows",
      description: "Some numbers.",
      inputSchema: { type: "object" },
      outputSchema: { type: "object", properties: { rows }, required: ["rows"] },
      annotations: { readOnlyHint: true, idempotentHint: true },
      icons: [{ src: "https://example.com/rows.png", mimeType: "image/png" }],
      _meta: { "example.com/kind": "table" },
    },
    { name: "numbers", description: "A list.", inputSchema: { type: "object" }, outputSchema: rows },
    { name: "search_actions", description: "Not ours.", inputSchema: { type: "object" } },
    { name: "fails", description: "Fails.", inputSchema: { type: "object" } },
  ];
  const results: Record<string, object> = {
    rows: {
      content: [
        { type: "text", text: "three", annotations: { audience: ["user"] } },
        { type: "resource_link", uri: "odd://1", name: "one" },
      ],
      structuredContent: { rows: [1, 2, 3] },
      _meta: { "example.com/took": 5 },
    },
    numbers: { content: [{ type: "text", text: "[1,2]" }], structuredContent: [1, 2] },
    search_actions: { content: [{ type: "text", text: "theirs" }] },
    fails: { content: [{ type: "text", text: "the reason" }], isError: true, _meta: { "example.com/took": 6 } },
  };
  server.setRequestHandler("tools/list", () => ({ tools }) as never);
  server.setRequestHandler("tools/call", ({ params }) => results[params.name] as CallToolResult);
  server.setRequestHandler("resources/list", () => ({ resources: [] }));
  server.setRequestHandler("resources/templates/list", () => ({ resourceTemplates: [] }));
  server.setRequestHandler("prompts/list", () => ({ prompts: [] }));
  return server;
}

describe.each(both)("a client of the %s era", (era) => {
  test("sees only the server's tools, with the server's definitions", async () => {
    const gate = await openGate({ behind: await connectUpstream("odd", oddServer, "modern"), profiles });
    const client = await gate.client(era);

    const { tools } = await client.listTools();

    expect(tools.map(({ name }) => name)).toEqual(["fails", "numbers", "rows", "search_actions"]);
    expect(tools.find(({ name }) => name === "rows")).toEqual({
      name: "rows",
      title: "Rows",
      description: "Some numbers.",
      inputSchema: { type: "object" },
      outputSchema: expect.objectContaining({ required: ["rows"] }),
      annotations: { readOnlyHint: true, idempotentHint: true },
      icons: [{ src: "https://example.com/rows.png", mimeType: "image/png" }],
      _meta: { "example.com/kind": "table" },
    });
  });

  test("gets the server's results unchanged", async () => {
    const gate = await openGate({ behind: await connectUpstream("odd", oddServer, "modern"), profiles });
    const client = await gate.client(era);

    const rows = await client.callTool({ name: "rows", arguments: {} });
    const numbers = await client.callTool({ name: "numbers", arguments: {} });
    const failed = await client.callTool({ name: "fails", arguments: {} });

    expect(rows).toMatchObject({
      content: [
        { type: "text", text: "three", annotations: { audience: ["user"] } },
        { type: "resource_link", uri: "odd://1", name: "one" },
      ],
      structuredContent: { rows: [1, 2, 3] },
      _meta: { "example.com/took": 5 },
    });
    // Before the modern era a structured result has to be an object.
    expect(numbers.structuredContent).toEqual(era === "legacy" ? { result: [1, 2] } : [1, 2]);
    expect(failed).toMatchObject({ isError: true, _meta: { "example.com/took": 6 } });
    expect(saidBy(failed)).toBe("the reason");
  });

  test("sees both with a surface, and our tools keep their names", async () => {
    const behind = await connectUpstream("odd", oddServer, "modern");
    const gate = await openGate({ behind, profiles: { t: { passThrough: ["*"], surface: "universal" } } });
    const client = await gate.client(era);

    const { tools } = await client.listTools();
    const theirs = await client.callTool({ name: "odd_search_actions", arguments: {} });
    const ours = await client.callTool({ name: "search_actions", arguments: { query: "echo" } });

    expect(tools.map(({ name }) => name)).toEqual([
      "describe_action",
      "invoke_action",
      "list_actions",
      "search_actions",
      "fails",
      "numbers",
      "odd_search_actions",
      "rows",
    ]);
    expect(saidBy(theirs)).toBe("theirs");
    expect(saidBy(ours)).toContain("tool__echo");
  });

  test("gets an error for an unknown tool, prompt and resource", async () => {
    const gate = await openGate({ behind: await connectUpstream("fixture", fixtureServer, "modern"), profiles });
    const client = await gate.client(era);

    await expect(client.callTool({ name: "tool__echo", arguments: {} })).rejects.toMatchObject({ code: -32602 });
    await expect(client.getPrompt({ name: "none" })).rejects.toMatchObject({ code: -32602 });
    const missing = { code: era === "legacy" ? -32002 : -32602 };
    await expect(rawRead(gate, era, "test://none")).resolves.toMatchObject(missing);
    await expect(rawRead(gate, era, "elsewhere://none")).resolves.toMatchObject(missing);
  });

  test("reads, prompts and completes through the server", async () => {
    const gate = await openGate({ behind: await connectUpstream("fixture", fixtureServer, "modern"), profiles });
    const client = await gate.client(era);

    const { resources } = await client.listResources();
    const { resourceTemplates } = await client.listResourceTemplates();
    const { prompts } = await client.listPrompts();
    const read = await client.readResource({ uri: "test://template/7/data" });
    const prompt = await client.getPrompt({ name: "test_prompt_with_arguments", arguments: { arg1: "a", arg2: "b" } });
    const ref = { type: "ref/prompt", name: "test_prompt_with_arguments" } as const;
    const completed = await client.complete({ ref, argument: { name: "arg1", value: "par" } });

    expect(resources.map(({ uri }) => uri)).toEqual([
      "test://static-binary",
      "test://static-text",
      "test://watched-resource",
    ]);
    expect(resourceTemplates).toHaveLength(1);
    expect(prompts).toHaveLength(5);
    expect(read.contents).toMatchObject([{ text: '{"id":"7","fromTemplate":true}' }]);
    expect(prompt.messages).toMatchObject([{ content: { text: "First a, then b." } }]);
    expect(completed.completion.values).toEqual(["paris", "park", "party"]);
  });

  test.each(both)("is asked by a server of the %s era", async (other) => {
    const gate = await openGate({ behind: await connectUpstream("fixture", fixtureServer, other), profiles });
    const client = await gate.client(era, "t", { capabilities: { elicitation: { form: {} } } });
    client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { name: "Ada" } }));

    const result = await client.callTool({ name: "test_input_required_result_elicitation", arguments: {} });

    expect(saidBy(result)).toContain('"content":{"name":"Ada"}');
  });

  test("is notified when the server's tools change", async () => {
    const gate = await openGate({ behind: await connectUpstream("fixture", fixtureServer, "modern"), profiles });
    const changed = vi.fn();
    const client = await gate.client(era, "t", { listChanged: { tools: { onChanged: changed, debounceMs: 0 } } });
    await client.listTools();

    await client.callTool({ name: "test_trigger_tool_change", arguments: {} });

    await vi.waitFor(() => expect(changed).toHaveBeenCalled());
  });

  test("offers no resources and no prompts where the profile has none", async () => {
    const behind = await connectUpstream("fixture", fixtureServer, "modern");
    const gate = await openGate({ behind, profiles: { t: { passThrough: ["*"], resources: false, prompts: false } } });
    const client = await gate.client(era);

    expect(Object.keys(client.getServerCapabilities() ?? {}).sort()).toEqual(["logging", "tools"]);
    await expect(rawRead(gate, era, "test://static-text")).resolves.toMatchObject({ code: -32601 });
  });
});

test("unsubscribes from a resource when its last subscriber has gone", async () => {
  const behind = await connectUpstream("fixture", fixtureServer, "modern");
  const gate = await openGate({ behind, profiles });
  const uri = "test://watched-resource";
  const [one, other, modern] = await Promise.all([gate.client("legacy"), gate.client("legacy"), gate.client("modern")]);
  const asked = async () =>
    (await gate.qm.ledger.read({ type: "call.received" })).map(({ data }) => (data as { asked: string }).asked);
  await one.subscribeResource({ uri });
  await other.subscribeResource({ uri });
  const stream = await modern.listen({ resourceSubscriptions: [uri] });
  await vi.waitFor(async () => expect(await asked()).toHaveLength(3));

  await one.unsubscribeResource({ uri });
  await (other.transport as unknown as { terminateSession(): Promise<void> }).terminateSession();
  expect(await asked()).not.toContain("mcp__fixture__resources/unsubscribe");
  await stream.close();

  await vi.waitFor(async () =>
    expect((await asked()).filter((name) => name.endsWith("resources/unsubscribe"))).toHaveLength(1),
  );
});

test("records every use of a server, and hides what the policy hides", async () => {
  const behind = await connectUpstream("fixture", fixtureServer, "modern");
  const policy = { tools: { denied: ["mcp__fixture__resources/read", "mcp__fixture__test_simple_text"] } };
  const gate = await openGate({ behind, profiles, policy });
  const client = await gate.client("modern");

  await expect(client.readResource({ uri: "test://static-text" })).rejects.toMatchObject({ code: -32602 });
  await expect(client.callTool({ name: "test_simple_text", arguments: {} })).rejects.toMatchObject({ code: -32602 });
  await client.callTool({ name: "test_image_content", arguments: {} });

  const ended = await gate.qm.ledger.read({ type: "call.ended" });
  expect(ended.map(({ data }) => (data as { status: string }).status)).toEqual(["failed", "failed", "done"]);
});

/** The error as it is on the wire: the SDK's client reads both codes as the same. */
async function rawRead(gate: Awaited<ReturnType<typeof openGate>>, era: string, uri: string): Promise<unknown> {
  if (era === "modern") {
    const _meta = {
      "io.modelcontextprotocol/protocolVersion": MODERN,
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const headers = { "mcp-protocol-version": MODERN, "mcp-method": "resources/read", "mcp-name": uri };
    const reply = await gate.post({ jsonrpc: "2.0", id: 1, method: "resources/read", params: { uri, _meta } }, headers);
    return ((await reply.json()) as { error: unknown }).error;
  }
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "x", version: "1" } };
  const opened = await gate.post({ jsonrpc: "2.0", id: 0, method: "initialize", params });
  await opened.text();
  const headers = { "mcp-session-id": opened.headers.get("mcp-session-id") ?? "" };
  const reply = await gate.post({ jsonrpc: "2.0", id: 1, method: "resources/read", params: { uri } }, headers);
  const line = (await reply.text()).split("\n").find((text) => text.startsWith("data:")) ?? "data:{}";
  return (JSON.parse(line.slice(5)) as { error: unknown }).error;
}
