import { Client as OldClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as OldTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, test, vi } from "vitest";
import { invoke, openGate, saidBy } from "./testing.ts";

const UNIVERSAL = ["describe_action", "invoke_action", "list_actions", "search_actions"];
const both = ["legacy", "modern"] as const;

describe.each(both)("a client of the %s era", (era) => {
  test("gets the universal tools, sorted, with their effects", async () => {
    const gate = await openGate();
    const client = await gate.client(era);

    const { tools } = await client.listTools();

    expect(tools.map(({ name }) => name)).toEqual(UNIVERSAL);
    const invoking = tools.find(({ name }) => name === "invoke_action");
    expect(invoking).toMatchObject({
      title: "Invoke action",
      annotations: { readOnlyHint: false, destructiveHint: true, openWorldHint: true },
      inputSchema: { properties: { action_name: { type: "string" } } },
    });
    expect(tools.find(({ name }) => name === "list_actions")?.annotations?.readOnlyHint).toBe(true);
  });

  test("gets the same bytes every time", async () => {
    const gate = await openGate();
    const client = await gate.client(era);

    const first = await client.listTools();
    await invoke(client, "tool__echo", { text: "hello" });
    await client.callTool({ name: "search_actions", arguments: { query: "echo" } });
    const second = await (await gate.client(era)).listTools();

    expect(JSON.stringify(second.tools)).toBe(JSON.stringify(first.tools));
  });

  test("runs an action and gets text and data", async () => {
    const gate = await openGate();
    const client = await gate.client(era);

    const result = await invoke(client, "tool__echo", { text: "hello" });

    expect(saidBy(result)).toBe('{"said":"hello"}');
    expect(result.structuredContent).toEqual({ said: "hello" });
    expect(result.isError).toBeFalsy();
  });

  test("gets a failure as a result that a model can read", async () => {
    const gate = await openGate();
    const client = await gate.client(era);

    const result = await invoke(client, "tool__ecko");

    expect(result.isError).toBe(true);
    expect(JSON.parse(saidBy(result))).toMatchObject({ code: "unknown_action", suggestions: ["tool__echo"] });
    expect(result.structuredContent).toMatchObject({ code: "unknown_action" });
  });

  test("gets a large result cut, and no second copy of it", async () => {
    const gate = await openGate();
    const client = await gate.client(era);

    const result = await invoke(client, "tool__fill", { size: 5_000_000 });

    expect(JSON.stringify(result).length).toBeLessThan(10_000);
    expect(saidBy(result)).toContain("cut: 5000014 characters in all");
    expect(result.structuredContent).toBeUndefined();
  });

  test("gets found actions as text only, because some clients show a model the data instead", async () => {
    const gate = await openGate();
    const client = await gate.client(era);

    const result = await client.callTool({ name: "search_actions", arguments: { query: "echo" } });

    expect(saidBy(result)).toContain("tool__echo");
    expect(result.structuredContent).toBeUndefined();
  });

  test("gets small pictures, and a note about large ones that were left out", async () => {
    const gate = await openGate();
    const client = await gate.client(era);

    const small = await invoke(client, "tool__draw", { size: 400 });
    const large = await invoke(client, "tool__draw", { size: 4_000_000 });

    expect(small.content).toContainEqual({ type: "image", mimeType: "image/png", data: "A".repeat(400) });
    expect(JSON.stringify(large).length).toBeLessThan(10_000);
    expect(saidBy(large)).toContain("left out: 4000000 characters");
  });

  test("gets an error for an unknown tool", async () => {
    const gate = await openGate();
    const client = await gate.client(era);

    await expect(client.callTool({ name: "no_such_tool", arguments: {} })).rejects.toMatchObject({ code: -32602 });
  });

  test("gets the progress and the log lines of a call", async () => {
    const gate = await openGate();
    const client = await gate.client(era);
    const lines: unknown[] = [];
    client.setNotificationHandler("notifications/message", ({ params: { level, data } }) => {
      lines.push([level, data]);
    });
    if (era === "legacy") await client.setLoggingLevel("info");
    const controller = new AbortController();
    const onprogress = vi.fn();

    const asked = era === "legacy" ? {} : { _meta: { "io.modelcontextprotocol/logLevel": "info" } };
    const call = client.callTool(
      { name: "invoke_action", arguments: { action_name: "tool__hang" }, ...asked },
      { onprogress, signal: controller.signal },
    );
    call.catch(() => {});

    await vi.waitFor(() => expect(onprogress).toHaveBeenCalledWith({ progress: 1, total: 2, message: "waiting" }));
    await vi.waitFor(() => expect(lines).toEqual([["warning", "it may take a while"]]));
    controller.abort();
    await expect(call).rejects.toThrow();
  });

  test("cancels its own call and no other", async () => {
    const gate = await openGate();
    const client = await gate.client(era);
    const controller = new AbortController();
    const one = invoke(client, "tool__hang", { name: "one" }, { signal: controller.signal });
    const other = invoke(client, "tool__hang", { name: "other" });
    for (const call of [one, other]) call.catch(() => {});
    await vi.waitFor(() => expect([...gate.hanging].sort()).toEqual(["one", "other"]));

    controller.abort();

    await vi.waitFor(() => expect(gate.stopped).toEqual(["one"]));
    await expect(one).rejects.toThrow();
    expect(saidBy(await invoke(client, "tool__echo", { text: "still there" }))).toContain("still there");
    expect(gate.stopped).toEqual(["one"]);
  });

  test("answers two questions of a running call", async () => {
    const gate = await openGate();
    const client = await gate.client(era, "t", { capabilities: { elicitation: { form: {} } } });
    const asked: string[] = [];
    client.setRequestHandler("elicitation/create", ({ params: { message } }) => {
      asked.push(message);
      return { action: "accept", content: message === "Your name?" ? { name: "Ada" } : { colour: "blue" } };
    });

    const result = await invoke(client, "tool__greet");

    expect(asked).toEqual(["Your name?", "Your colour?"]);
    expect(result.structuredContent).toEqual({
      who: { action: "accept", content: { name: "Ada" } },
      how: { action: "accept", content: { colour: "blue" } },
    });
  });

  test("is not asked without the capability to answer", async () => {
    const gate = await openGate();
    const client = await gate.client(era);

    const result = await invoke(client, "tool__greet");

    expect(result.isError).toBe(true);
    expect(result.structuredContent).toMatchObject({ mcp_code: -32021 });
  });

  test("makes fifty calls at once and gets the right answers", async () => {
    const gate = await openGate();
    const client = await gate.client(era);

    const results = await Promise.all(
      Array.from({ length: 50 }, (_, n) => invoke(client, "tool__echo", { text: `number ${n}` })),
    );

    expect(results.map((result) => result.structuredContent)).toEqual(
      Array.from({ length: 50 }, (_, n) => ({ said: `number ${n}` })),
    );
  });

  test("is recorded with its profile when it connects", async () => {
    const gate = await openGate();
    const client = await gate.client(era);
    await client.listTools();

    await vi.waitFor(() => expect(gate.noted).toHaveLength(1));
    expect(gate.noted[0]).toMatchObject({
      caller: { actor: "default" },
      event: { type: "client.connected", data: { profile: "plain", client: "tester 1", transport: "http" } },
    });
  });
});

describe("two tokens", () => {
  const profiles = { a: { name: "a", actor: "alice" }, b: { name: "b", actor: "bob" } };
  const policy = {
    actors: [
      { name: "alice", tools: ["tool__echo"] },
      { name: "bob", tools: ["tool__fill"] },
    ],
  };

  test.each(both)("have two views in the %s era", async (era) => {
    const gate = await openGate({ profiles, policy });
    const alice = await gate.client(era, "a");
    const bob = await gate.client(era, "b");

    expect((await invoke(alice, "tool__echo")).isError).toBeFalsy();
    expect((await invoke(bob, "tool__echo")).structuredContent).toMatchObject({ code: "unknown_action" });
    expect((await invoke(bob, "tool__fill", { size: 1 })).isError).toBeFalsy();
  });

  test.each([
    ["two profiles", profiles],
    ["one profile", { a: { actor: "alice" }, b: { actor: "alice" } }],
  ])("of %s cannot use each other's sessions", async (_which, tokens) => {
    const gate = await openGate({ profiles: tokens, policy });
    const initialize = await gate.post(
      {
        jsonrpc: "2.0",
        id: 1,
        method: "initialize",
        params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "x", version: "1" } },
      },
      { authorization: "Bearer a" },
    );
    const session = initialize.headers.get("mcp-session-id") ?? "";
    await initialize.text();
    const list = { jsonrpc: "2.0", id: 2, method: "tools/list" };

    const own = await gate.post(list, { authorization: "Bearer a", "mcp-session-id": session });
    const foreign = await gate.post(list, { authorization: "Bearer b", "mcp-session-id": session });

    expect(session).not.toBe("");
    expect([own.status, foreign.status]).toEqual([200, 404]);
    await own.text();
  });
});

test("a client of the first SDK connects, is asked and answers", async () => {
  const gate = await openGate();
  const client = new OldClient({ name: "old", version: "1" }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, () => ({ action: "accept" as const, content: { name: "Bo" } }));
  const requestInit = { headers: { authorization: "Bearer t" } };
  // Its types do not fit our strict compiler options.
  await client.connect(new OldTransport(new URL(gate.url), { requestInit }) as never);

  const { tools } = await client.listTools();
  const result = await client.callTool({ name: "invoke_action", arguments: { action_name: "tool__greet" } });
  await client.close();

  expect(tools.map(({ name }) => name)).toEqual(UNIVERSAL);
  expect(result.structuredContent).toMatchObject({ who: { content: { name: "Bo" } } });
});

test("notifies a legacy client of tools that a call added; a modern client's list stays the same", async () => {
  const gate = await openGate({ surface: { kind: "deferred" } });
  const changed = vi.fn();
  const old = await gate.client("legacy", "t", { listChanged: { tools: { onChanged: changed, debounceMs: 0 } } });
  const modern = await gate.client("modern");
  const before = (await old.listTools()).tools.map(({ name }) => name);
  const modernBefore = await modern.listTools();

  await old.callTool({ name: "tool__echo", arguments: {} });
  await modern.callTool({ name: "tool__echo", arguments: {} });

  await vi.waitFor(() => expect(changed).toHaveBeenCalled());
  expect((await old.listTools()).tools.map(({ name }) => name)).toEqual([...before, "tool__echo"]);
  // A second client, because the first may cache its list.
  expect((await (await gate.client("modern")).listTools()).tools).toEqual(modernBefore.tools);
});

test.each(both)("notifies a client of the %s era when the catalog changes", async (era) => {
  const gate = await openGate({ surface: { kind: "flat" } });
  const changed = vi.fn();
  const client = await gate.client(era, "t", { listChanged: { tools: { onChanged: changed, debounceMs: 0 } } });
  const { tools } = await client.listTools();

  gate.qm.unregister("echo");

  await vi.waitFor(() => expect(changed).toHaveBeenCalled());
  expect(tools.map(({ name }) => name)).toContain("tool__echo");
  await vi.waitFor(async () =>
    expect((await client.listTools()).tools.map(({ name }) => name)).not.toContain("tool__echo"),
  );
});

test("closing ends running calls and calls that wait for an answer", async () => {
  const gate = await openGate();
  const client = await gate.client("legacy");
  const call = invoke(client, "tool__hang", { name: "open" });
  call.catch(() => {});
  await vi.waitFor(() => expect(gate.hanging).toEqual(["open"]));

  await gate.gateway.close();

  await vi.waitFor(() => expect(gate.stopped).toEqual(["open"]));
});
