import { PassThrough } from "node:stream";
import type { Client, ClientOptions } from "@modelcontextprotocol/client";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { describe, expect, test, vi } from "vitest";
import { fixtureServer } from "../../../conformance/fixture-server.ts";
import type { GatewayEra } from "./gateway.ts";
import {
  clientOf,
  connectUpstream,
  type Gate,
  type GateOptions,
  invoke,
  openGate,
  profileWith,
  saidBy,
} from "./testing.ts";

interface Piped {
  readonly gate: Gate;
  readonly stdin: PassThrough;
  /** Every line that was written. */
  readonly lines: string[];
  readonly served: Promise<void>;
  readonly controller: AbortController;
  /** The next line that is an answer to that id. */
  answer(id: number): Promise<Record<string, unknown>>;
  connect(era: GatewayEra, options?: ClientOptions): Promise<Client>;
}

async function pipes(options: GateOptions = {}, profile = profileWith()): Promise<Piped> {
  const gate = await openGate(options);
  const stdin = new PassThrough();
  const stdout = new PassThrough();
  const lines: string[] = [];
  stdout.on("data", (chunk: Buffer) => lines.push(...chunk.toString().split("\n").filter(Boolean)));
  const controller = new AbortController();
  const served = gate.gateway.serveStdio({ stdin, stdout, profile, signal: controller.signal });
  return {
    gate,
    stdin,
    lines,
    served,
    controller,
    answer: (id) =>
      vi.waitFor(() => {
        const found = lines.map((line) => JSON.parse(line) as Record<string, unknown>).find((line) => line.id === id);
        if (found === undefined) throw new Error("no answer yet");
        return found;
      }),
    async connect(era, clientOptions) {
      const client = clientOf(era, clientOptions);
      // The SDK's server transport reads and writes lines, so it also works for a client.
      await client.connect(new StdioServerTransport(stdout, stdin));
      return client;
    },
  };
}

const write = ({ stdin }: Piped, message: unknown) => stdin.write(`${JSON.stringify(message)}\n`);
const initialize = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "x", version: "1" } },
};

describe.each(["legacy", "modern"] as const)("over stdio in the %s era", (era) => {
  test("a client lists, calls, is asked and answers", async () => {
    const piped = await pipes();
    const client = await piped.connect(era, { capabilities: { elicitation: { form: {} } } });
    client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { name: "Ada" } }));

    const { tools } = await client.listTools();
    const echoed = await invoke(client, "tool__echo", { text: "hello" });
    const greeted = await invoke(client, "tool__greet");

    expect(tools).toHaveLength(4);
    expect(saidBy(echoed)).toBe('{"said":"hello"}');
    const accepted = { action: "accept", content: { name: "Ada" } };
    expect(greeted.structuredContent).toEqual({ who: accepted, how: accepted });
    expect(piped.gate.noted).toMatchObject([{ event: { data: { transport: "stdio" } } }]);
    await client.close();
    piped.stdin.end();
    await piped.served;
  });

  test("cancelling stops the call", async () => {
    const piped = await pipes();
    const client = await piped.connect(era);
    const controller = new AbortController();
    const call = invoke(client, "tool__hang", { name: "it" }, { signal: controller.signal });
    call.catch(() => {});
    await vi.waitFor(() => expect(piped.gate.hanging).toEqual(["it"]));

    controller.abort();

    await vi.waitFor(() => expect(piped.gate.stopped).toEqual(["it"]));
  });

  test("notifies of a changed resource, and uses the era's code for an unknown one", async () => {
    const behind = await connectUpstream("fixture", fixtureServer, "modern");
    let updated = (_server: string, _uri: string) => {};
    behind.upstream.onResourceUpdated = (listener) => {
      updated = listener;
      return () => {};
    };
    const piped = await pipes({ behind }, profileWith({ passThrough: ["*"] }));
    const client = await piped.connect(era);
    const heard: string[] = [];
    client.setNotificationHandler("notifications/resources/updated", ({ params: { uri } }) => {
      heard.push(uri);
    });
    const uri = "test://watched-resource";
    if (era === "legacy") await client.subscribeResource({ uri });
    else await client.listen({ resourceSubscriptions: [uri] });

    await vi.waitFor(() => {
      updated("fixture", uri);
      updated("fixture", "test://static-text");
      updated("another", uri);
      expect(heard).not.toEqual([]);
    });

    expect(new Set(heard)).toEqual(new Set([uri]));
    const code = era === "legacy" ? -32002 : -32602;
    await expect(client.readResource({ uri: "nowhere://at-all" })).rejects.toBeDefined();
    expect(piped.lines.some((line) => line.includes(`"code":${code}`))).toBe(true);
  });
});

test.each(["legacy", "modern"] as const)("a %s client over stdio names the session of a call", async (era) => {
  const piped = await pipes();
  const client = await piped.connect(era);
  const call = { name: "invoke_action", arguments: { action_name: "tool__echo", args: {} } };

  await client.callTool({ ...call, _meta: { "quartermaster/session": "talk" } });
  await client.callTool(call);
  await expect(client.callTool({ ...call, _meta: { "quartermaster/session": "no good" } })).rejects.toThrow("session");

  const received = await piped.gate.qm.ledger.read({ type: "call.received" });
  const sessions = received.map(({ session }) => session);
  expect(sessions).toEqual([expect.stringMatching(/^mcp:plain:[0-9a-f]{16}:talk$/), expect.stringMatching(/^[^:]+$/)]);
});

test("ends with stdin and cancels running calls", async () => {
  const piped = await pipes();
  write(piped, initialize);
  await piped.answer(1);
  const params = { name: "invoke_action", arguments: { action_name: "tool__hang", args: { name: "it" } } };
  write(piped, { jsonrpc: "2.0", id: 2, method: "tools/call", params });
  await vi.waitFor(() => expect(piped.gate.hanging).toEqual(["it"]));

  piped.stdin.end();

  await piped.served;
  await vi.waitFor(() => expect(piped.gate.stopped).toEqual(["it"]));
});

test("ends when the signal is aborted", async () => {
  const piped = await pipes();
  write(piped, initialize);
  await piped.answer(1);

  piped.controller.abort();

  await piped.served;
});

test("survives noise, batches and deep messages, and writes only messages", async () => {
  const piped = await pipes();
  piped.stdin.write("hello\n\n{\n[1,2]\n[]\nnull\n{}\n");
  piped.stdin.write('[{"jsonrpc":"2.0","id":9,"method":"ping"}]\n');
  write(piped, initialize);
  const deep = `${"[".repeat(20_000)}${"]".repeat(20_000)}`;
  piped.stdin.write(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"a":${deep}}}\n`);
  write(piped, { jsonrpc: "2.0", id: 3, method: "tools/list" });

  expect(await piped.answer(1)).toMatchObject({ result: { protocolVersion: "2025-06-18" } });
  expect(await piped.answer(2)).toMatchObject({ error: { code: -32600 } });
  expect(await piped.answer(3)).toMatchObject({ result: { tools: expect.any(Array) } });
  expect(piped.lines.every((line) => line.startsWith('{"') && line.includes('"jsonrpc":"2.0"'))).toBe(true);
});

test("answers a line that is too long with an error, and reads the next one", async () => {
  const piped = await pipes({ limits: { bodyBytes: 100_000 } });
  write(piped, initialize);
  await piped.answer(1);

  for (let n = 0; n < 20; n++) piped.stdin.write("x".repeat(10_000));
  const refused = await vi.waitFor(() => {
    const line = piped.lines.map((each) => JSON.parse(each)).find(({ id }) => id === null);
    expect(line).toBeDefined();
    return line;
  });
  piped.stdin.write("\n");
  write(piped, { jsonrpc: "2.0", id: 2, method: "tools/list" });

  expect(refused.error).toEqual({ code: -32600, message: expect.stringContaining("at most 100000 bytes") });
  expect(await piped.answer(2)).toMatchObject({ result: { tools: expect.any(Array) } });
  expect(piped.lines.filter((line) => line.includes('"id":null'))).toHaveLength(1);
});

test.each([
  ["not JSON", "hello", -32700],
  ["half a message", '{"jsonrpc":"2.0","id":1,', -32700],
  ["not an object", "null", -32600],
  ["not a message", "{}", -32600],
  ["a batch", '[{"jsonrpc":"2.0","id":9,"method":"ping"}]', -32600],
])("answers a line that is %s with the code for it", async (_which, line, code) => {
  const piped = await pipes();

  piped.stdin.write(`${line}\n`);
  write(piped, initialize);
  await piped.answer(1);

  expect(piped.lines.map((each) => JSON.parse(each))[0]).toMatchObject({ id: null, error: { code } });
});
