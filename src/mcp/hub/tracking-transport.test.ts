import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { expect, test } from "vitest";
import { createTestCaller } from "../../../test/support/mcp-hub.ts";
import type { ServerCall } from "./server-questions.ts";
import { TrackingTransport } from "./tracking-transport.ts";

/** A transport on a channel that all requests share, and what is said on it. */
function openTap() {
  const said: JSONRPCMessage[] = [];
  const inner: Transport = {
    start: async () => undefined,
    send: async (message) => void said.push(message),
    close: async () => inner.onclose?.(),
  };
  const tap = new TrackingTransport(inner);
  const askers: (ServerCall | undefined)[] = [];
  tap.onmessage = (message) => {
    if ("method" in message) void Promise.resolve().then(() => askers.push(tap.currentCall));
  };
  return {
    tap,
    said,
    hear: (message: object) => inner.onmessage?.({ jsonrpc: "2.0", ...message } as JSONRPCMessage),
    async asker() {
      inner.onmessage?.({ jsonrpc: "2.0", id: "q", method: "elicitation/create" });
      await Promise.resolve();
      return askers.at(-1);
    },
    send() {
      const owner = crypto.randomUUID();
      const call: ServerCall = { owner, dialogue: createTestCaller(undefined, undefined, owner) };
      const stop = new AbortController();
      let id = -1;
      const answer = tap.request(
        { call, progressToken: owner, onProgress: undefined },
        "tools/call",
        {},
        {
          signal: stop.signal,
          headers: undefined,
          cancelsByClosing: false,
          meta: undefined,
          onSent: (given) => {
            id = given;
          },
          createLostError: () => new Error("lost"),
        },
      );
      answer.catch(() => undefined);
      return { id, call, answer, abandon: () => stop.abort(new Error("not needed any more")) };
    },
  };
}

test.each([
  ["a result", { result: {} }],
  ["an error", { error: { code: 1, message: "no" } }],
])("forgets an abandoned request when %s comes", async (_, answer) => {
  const { send, asker, hear } = openTap();
  const first = send();
  first.abandon();
  const mine = send();
  expect(await asker()).toBeUndefined();

  hear({ id: first.id, ...answer });

  expect(await asker()).toBe(mine.call);
});

test("finds the call of a question when it arrives, not when it is handled", async () => {
  const { tap, send, hear } = openTap();
  const askers: unknown[] = [];
  tap.onmessage = (message) => {
    if ("method" in message) setImmediate(() => askers.push(tap.currentCall));
  };
  const first = send();
  first.abandon();
  send();

  hear({ id: "q", method: "elicitation/create" });
  hear({ id: first.id, result: {} });
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));

  expect(askers).toEqual([undefined]);
});

test("limits tracked abandoned requests and then asks no caller any more", async () => {
  const { send, asker, hear } = openTap();
  const all = Array.from({ length: 1001 }, send);
  for (const { abandon } of all) abandon();

  for (const { id } of all) hear({ id, result: {} });
  send();

  expect(await asker()).toBeUndefined();
});

test("answers a result and an error as they came", async () => {
  const { send, hear } = openTap();
  const [first, second] = [send(), send()];

  hear({ id: second.id, error: { code: -32602, message: "no such tool", data: { why: 1 } } });
  hear({ id: first.id, result: { odd: [1] } });

  expect(await first.answer).toEqual({ odd: [1] });
  await expect(second.answer).rejects.toMatchObject({ code: -32602, message: "no such tool", data: { why: 1 } });
});

test("tells the server that a request was cancelled, and rejects with the reason", async () => {
  const { send, said } = openTap();
  const { id, answer, abandon } = send();

  abandon();

  await expect(answer).rejects.toThrow("not needed any more");
  const params = { requestId: id, reason: "cancelled" };
  expect(said.at(-1)).toEqual({ jsonrpc: "2.0", method: "notifications/cancelled", params });
});

test("rejects what is in progress when the connection closes", async () => {
  const { tap, send } = openTap();
  const { answer } = send();

  await tap.end();

  await expect(answer).rejects.toThrow("the connection was closed");
});
