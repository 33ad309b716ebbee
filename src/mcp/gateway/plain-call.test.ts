import { hash } from "node:crypto";
import { afterAll, describe, expect, test, vi } from "vitest";
import { readPlainCall } from "./plain-call.ts";
import { type Gate, MODERN, openGate, profileWith } from "./testing.ts";

const call = { jsonrpc: "2.0", id: 7, method: "tools/call", params: { name: "list_actions" } };
const envelope = {
  "io.modelcontextprotocol/protocolVersion": MODERN,
  "io.modelcontextprotocol/clientInfo": { name: "tester", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};
type Era = "legacy" | "modern";
const eras: readonly Era[] = ["legacy", "modern"];

/** A request as a client of the era sends it, without a client. */
async function openPlainClient(gate: Gate, era: Era) {
  const version = era === "legacy" ? "2025-11-25" : MODERN;
  const headers: Record<string, string> = { "mcp-protocol-version": version };
  if (era === "legacy") {
    const params = { protocolVersion: version, capabilities: {}, clientInfo: { name: "tester", version: "1" } };
    const opened = await gate.post({ jsonrpc: "2.0", id: 1, method: "initialize", params });
    await opened.text();
    headers["mcp-session-id"] = opened.headers.get("mcp-session-id") ?? "";
  }
  const build = (params: { readonly name: string; readonly _meta?: object }, id: number) => {
    const _meta = era === "legacy" ? params._meta : { ...envelope, ...params._meta };
    const message = { jsonrpc: "2.0", id, method: "tools/call", params: { ...params, ...(_meta && { _meta }) } };
    const named = era === "legacy" ? {} : { "mcp-method": "tools/call", "mcp-name": params.name };
    return { message, headers: { ...headers, ...named } };
  };
  return {
    build,
    send(params: { readonly name: string; readonly arguments?: object; readonly _meta?: object }, id = 7) {
      const { message, headers } = build(params, id);
      return gate.post(message, headers);
    },
  };
}

/** What runs every 15 seconds. One timer serves all calls of a process. */
const intervals: (() => void)[] = [];
const startInterval = globalThis.setInterval;
vi.spyOn(globalThis, "setInterval").mockImplementation(((work: () => void, ms: number) => {
  if (ms === 15_000) intervals.push(work);
  return startInterval(work, ms);
}) as never);
afterAll(() => void vi.restoreAllMocks());

/** An action that says nothing until it is stopped. */
function registerWait({ qm }: Gate) {
  const calls = { began: 0, stopped: 0 };
  qm.register({
    name: "wait",
    description: "Waits until it is stopped.",
    scope: "generalist",
    effect: "read",
    inputSchema: { type: "object" },
    handler: (_args, { signal }) => {
      calls.began++;
      return new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => {
          calls.stopped++;
          reject(new Error("stopped"));
        });
      });
    },
  });
  return calls;
}

const WAIT = { name: "invoke_action", arguments: { action_name: "tool__wait", args: {} } };

const readEvents = (text: string) =>
  text.split("\n").flatMap((line) => (line.startsWith("data: ") ? [JSON.parse(line.slice(6))] : []));

const withoutIds = (text: string): unknown =>
  JSON.parse(text, (key, value) => (key === "quartermaster/callId" ? "an id" : value));

describe.each(eras)("a plain call of the %s era", (era) => {
  test("is answered with one document of a known length", async () => {
    const gate = await openGate();
    const client = await openPlainClient(gate, era);

    const response = await client.send({ name: "list_actions", arguments: {} });

    const text = await response.text();
    expect(response.headers.get("content-type")).toBe("application/json");
    expect(Number(response.headers.get("content-length"))).toBe(Buffer.byteLength(text));
    expect(JSON.parse(text)).toMatchObject({ jsonrpc: "2.0", id: 7, result: { content: [{ type: "text" }] } });
  });

  test.each([
    ["a lookup", { name: "list_actions", arguments: {} }],
    ["an action", { name: "invoke_action", arguments: { action_name: "tool__echo", args: { text: "hi — ✓" } } }],
    ["no arguments", { name: "search_actions" }],
    ["a wrong argument", { name: "invoke_action", arguments: { action_name: "tool__fill", args: { size: "x" } } }],
    ["an unknown tool", { name: "nothing", arguments: {} }],
    ["a wrong session name", { name: "list_actions", arguments: {}, _meta: { "quartermaster/session": "a b" } }],
  ])("gets the answer that the SDK gives: %s", async (_which, params) => {
    const gate = await openGate();
    const client = await openPlainClient(gate, era);
    const { message, headers } = client.build(params, 7);
    const init = { method: "POST", body: JSON.stringify(message) };
    const accept = { accept: "application/json, text/event-stream", "content-type": "application/json" };
    const request = new Request(gate.url, { ...init, headers: { ...headers, ...accept } });

    const plain = await client.send(params);
    const fromSdk = await gate.gateway.fetch(request, profileWith(), { principal: hash("sha256", "t", "hex") });

    const [event] = [await fromSdk.text()].map((text) => (text.startsWith("{") ? text : text.slice(text.indexOf("{"))));
    expect(plain.status).toBe(fromSdk.status);
    expect(withoutIds(await plain.text())).toEqual(withoutIds(event ?? ""));
  });

  test("is answered with a stream if there is progress before", async () => {
    const gate = await openGate();
    const client = await openPlainClient(gate, era);
    const params = { name: "invoke_action", arguments: { action_name: "tool__hang" }, _meta: { progressToken: "p" } };

    const response = await client.send(params);

    expect(response.headers.get("content-type")).toBe("text/event-stream");
    const first = await response.body?.getReader().read();
    const [event] = readEvents(Buffer.from(first?.value ?? []).toString());
    expect(event).toMatchObject({ method: "notifications/progress", params: { progressToken: "p", progress: 1 } });
  });

  test("keeps its connection alive while it runs", async () => {
    const gate = await openGate();
    const calls = registerWait(gate);
    const client = await openPlainClient(gate, era);

    const answered = client.send(WAIT);
    await vi.waitFor(() => expect(calls.began).toBe(1));
    for (const beat of intervals) beat();

    const response = await answered;
    const first = await response.body?.getReader().read();
    expect(Buffer.from(first?.value ?? []).toString()).toContain(": keepalive\n\n");
  });

  test("ends with its session or connection", async () => {
    const gate = await openGate();
    const calls = registerWait(gate);
    const client = await openPlainClient(gate, era);
    const stop = new AbortController();
    const { message, headers } = client.build(WAIT, 9);
    const given = { authorization: "Bearer t", accept: "application/json, text/event-stream", ...headers };
    const answered = fetch(gate.url, {
      method: "POST",
      headers: { ...given, "content-type": "application/json" },
      body: JSON.stringify(message),
      signal: stop.signal,
    });
    await vi.waitFor(() => expect(calls.began).toBe(1));

    if (era === "modern") {
      stop.abort();
      await expect(answered).rejects.toThrow();
    } else {
      await fetch(gate.url, { method: "DELETE", headers: given });
      expect(await (await answered).text()).toBe("");
    }

    await vi.waitFor(() => expect(calls.stopped).toBe(1));
  });
});

test("two running calls of a session cannot have one id", async () => {
  const gate = await openGate();
  const calls = registerWait(gate);
  const client = await openPlainClient(gate, "legacy");
  const first = client.send(WAIT, 5);
  await vi.waitFor(() => expect(calls.began).toBe(1));

  const second = await client.send({ name: "list_actions" }, 5);

  expect(second.status).toBe(400);
  expect(await second.text()).toContain("still being answered");
  await gate.gateway.close();
  expect(await (await first).text()).toBe("");
});

test.each([
  ["a call", call],
  ["arguments and a session's name", { ...call, params: { name: "x", arguments: { a: 1 }, _meta: { other: true } } }],
  ["an id that is a text", { ...call, id: "a" }],
  ["a progress token", { ...call, params: { name: "x", _meta: { progressToken: 3 } } }],
])("is plain: %s", (_which, message) => {
  expect(readPlainCall(message)?.params.name).toBe(message.params.name);
});

test.each<[string, unknown]>([
  ["a text", "tools/call"],
  ["a batch", [call]],
  ["another version", { ...call, jsonrpc: "1.0" }],
  ["another method", { ...call, method: "tools/list" }],
  ["no id", { ...call, id: undefined }],
  ["a broken id", { ...call, id: 1.5 }],
  ["no params", { ...call, params: undefined }],
  ["no name", { ...call, params: {} }],
  ["arguments that are a list", { ...call, params: { name: "x", arguments: [] } }],
  ["a task", { ...call, params: { name: "x", task: {} } }],
  ["an answer to a question", { ...call, params: { name: "x", inputResponses: {} } }],
  ["a request state", { ...call, params: { name: "x", requestState: "s" } }],
  ["_meta that is a list", { ...call, params: { name: "x", _meta: [] } }],
  ["a broken progress token", { ...call, params: { name: "x", _meta: { progressToken: {} } } }],
  ["an unknown reserved key", { ...call, params: { name: "x", _meta: { "io.modelcontextprotocol/other": 1 } } }],
])("is not plain: %s", (_which, message) => {
  expect(readPlainCall(message)).toBeUndefined();
});
