import fc from "fast-check";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { DroppedLine } from "../../core/line-reader.ts";
import { buildDroppedResponse, canHoldMessage, readMessages } from "./message-reader.ts";

const read = (text: string) => readMessages(Buffer.from(text));
const ANSWER = { jsonrpc: "2.0", id: 1, result: { text: 'a "quoted" {"jsonrpc"' } };
const TOLD = { jsonrpc: "2.0", method: "notifications/message", params: { inner: { jsonrpc: "2.0", method: "no" } } };

describe("a line", () => {
  test.each([
    ["an answer", ANSWER],
    ["an error", { jsonrpc: "2.0", id: null, error: { code: 1, message: "" } }],
    ["a notification", TOLD],
    ["a request, in an order of its own", { params: {}, id: "x", method: "roots/list", jsonrpc: "2.0" }],
  ])("is a message: %s", (_, message) => {
    expect(read(JSON.stringify(message))).toEqual({ messages: [message], noise: false });
  });

  test.each([
    "Server listening on stdio",
    '{"level":"info","msg":"hello"}',
    '{"jsonrpc":"2.0"}',
    '{"jsonrpc":"1.0","id":1,"result":{}}',
    '{"jsonrpc":"2.0","id":1,"resu',
    "42",
    "null",
    '"text"',
    "[]",
    '[1,[{"jsonrpc":"2.0","method":"nested"}]]',
    "{",
    "\u0000\uFFFD",
  ])("is noise: %j", (text) => {
    expect(read(text)).toEqual({ messages: [], noise: true });
  });

  test("is a batch: all its messages are read, the rest is noise", () => {
    expect(read(JSON.stringify([ANSWER, TOLD]))).toEqual({ messages: [ANSWER, TOLD], noise: false });
    expect(read(JSON.stringify([ANSWER, 7, TOLD]))).toEqual({ messages: [ANSWER, TOLD], noise: true });
  });

  test.each([
    ["a banner", "Ready. "],
    ["a BOM", "\uFEFF"],
    ["colours", "\u001b[32mok\u001b[0m"],
    ["braces", "{ready} {"],
    ["half a message", '{"jsonrpc":"2.0","id":1,"result":{"te'],
    ["many that are none", '{"id":1}'.repeat(50)],
  ])("is a message after %s", (_, before) => {
    for (const message of [ANSWER, TOLD])
      expect(read(before + JSON.stringify(message))).toEqual({ messages: [message], noise: true });
  });

  test("is a message after a banner that looks like many messages", () => {
    const message = { id: 1, result: { rows: Array.from({ length: 500 }, (_, id) => ({ id })) }, jsonrpc: "2.0" };

    expect(read(`banner ${JSON.stringify(message)}`)).toEqual({ messages: [message], noise: true });
  });

  test("is parsed only a few times, however many openings it has", () => {
    const parse = JSON.parse;
    let parses = 0;
    JSON.parse = (...given) => {
      parses++;
      return parse(...given);
    };
    try {
      expect(read('{"id":'.repeat(100_000))).toEqual({ messages: [], noise: true });
    } finally {
      JSON.parse = parse;
    }
    expect(parses).toBeLessThanOrEqual(9);
  });

  test("never throws", () => {
    fc.assert(fc.property(fc.uint8Array(), (bytes) => void readMessages(Buffer.from(bytes))));
    fc.assert(
      fc.property(fc.json(), fc.string(), (json, before) => {
        expect(read(before + json).messages.every(({ jsonrpc }) => jsonrpc === "2.0")).toBe(true);
      }),
    );
  });
});

test("reads a long line only if it may contain a message", () => {
  expect(canHoldMessage(Buffer.from('noise [ { "id" : 1'))).toBe(true);
  expect(canHoldMessage(Buffer.from("x".repeat(65_536)))).toBe(false);
  expect(canHoldMessage(Buffer.from("{".repeat(65_536)))).toBe(false);
});

describe("the error response for an answer that was too long", () => {
  const dropped = (head: string, tail: string): DroppedLine => {
    return { head: Buffer.from(head), tail: Buffer.from(tail), bytes: 99 };
  };

  test.each([
    ['{"jsonrpc":"2.0","id":7,"result":{"text":"…', '…"}}', 7],
    ['{"id":"a-7","jsonrpc":"2.0","result":{', "}}", "a-7"],
    ['{ "jsonrpc" : "2.0", "id" : 7 , "result" : {', "}}", 7],
    ['{"result":{"id":3,', '…},"jsonrpc":"2.0","id":7}', 7],
    ['{"jsonrpc":"2.0","result":{"id":3,', '…}, "id": "x" }\r', "x"],
    ['{"result":{', '},"id":7,"jsonrpc":"2.0"}', 7],
  ])("%s %s", (head, tail, id) => {
    expect(buildDroppedResponse(dropped(head, tail))).toMatchObject({ jsonrpc: "2.0", id, error: { code: -32603 } });
  });

  test.each([
    ["a request of the server", '{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage"', "}}"],
    ["an id that belongs to something inside", '{"result":{', ',"id":7}}'],
    ["noise", "xxxx", "xxxx"],
    ["noise with an id at its end", "xxxx", ',"id":7}'],
  ])("not %s", (_, head, tail) => {
    expect(buildDroppedResponse(dropped(head, tail))).toBeUndefined();
  });
});

test("does not parse a long line again at each possible start of a message", () => {
  const parse = vi.spyOn(JSON, "parse");
  onTestFinished(() => void parse.mockRestore());
  const line = Buffer.from(`${'{"id": '.repeat(60_000)}!`);

  expect(readMessages(line)).toEqual({ messages: [], noise: true });
  expect(parse.mock.calls.length).toBeLessThan(5);
});
