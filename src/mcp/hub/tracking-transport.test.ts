import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { expect, test } from "vitest";
import { createTestCaller } from "../../../test/support/mcp-hub.ts";
import type { ServerCall } from "./server-questions.ts";
import { TRACKED, type TrackedRequest, TrackingTransport } from "./tracking-transport.ts";

/** A tap on a channel that all share, and what is said on it. */
function tapped() {
  const inner: Transport = { start: async () => undefined, send: async () => undefined, close: async () => undefined };
  const tap = new TrackingTransport(inner);
  const askers: (ServerCall | undefined)[] = [];
  tap.onmessage = (message) => {
    if ("method" in message) void Promise.resolve().then(() => askers.push(tap.currentCall));
  };
  let last = 0;
  return {
    tap,
    hear: (message: object) => inner.onmessage?.({ jsonrpc: "2.0", ...message } as JSONRPCMessage),
    async asker() {
      inner.onmessage?.({ jsonrpc: "2.0", id: "q", method: "elicitation/create" });
      await Promise.resolve();
      return askers.at(-1);
    },
    async send(owner = crypto.randomUUID()): Promise<TrackedRequest> {
      const call = { owner, dialogue: createTestCaller(undefined, undefined, owner) };
      const progressToken = String(++last);
      const sent: TrackedRequest = {
        method: "tools/call",
        call,
        progressToken,
        onProgress: undefined,
        onLost: () => undefined,
      };
      await tap.send({ jsonrpc: "2.0", id: last, method: "tools/call", [TRACKED]: sent } as never);
      return sent;
    },
  };
}

test.each([
  ["a result", { result: {} }],
  ["an error", { error: { code: 1, message: "no" } }],
])("forgets an abandoned request when %s comes", async (_, answer) => {
  const { tap, send, asker, hear } = tapped();
  tap.abandon(await send());
  const mine = await send();
  expect(await asker()).toBeUndefined();

  hear({ id: 1, ...answer });

  expect(await asker()).toBe(mine.call);
});

test("finds the call of a question when it arrives, not when it is handled", async () => {
  const { tap, send, hear } = tapped();
  const askers: unknown[] = [];
  tap.onmessage = (message) => {
    if ("method" in message) setImmediate(() => askers.push(tap.currentCall));
  };
  tap.abandon(await send());
  await send();

  hear({ id: "q", method: "elicitation/create" });
  hear({ id: 1, result: {} });
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));

  expect(askers).toEqual([undefined]);
});

test("limits tracked abandoned requests and then asks no caller any more", async () => {
  const { tap, send, asker, hear } = tapped();
  for (let count = 0; count < 1001; count++) tap.abandon(await send());

  for (let id = 1; id <= 1001; id++) hear({ id, result: {} });
  await send();

  expect(await asker()).toBeUndefined();
});
