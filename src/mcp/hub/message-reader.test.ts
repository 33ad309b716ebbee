import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { expect, test } from "vitest";
import type { QmError } from "../../core/errors.ts";
import { createMessageReader } from "./message-reader.ts";

function reading(limit = 1_000_000) {
  const messages: JSONRPCMessage[] = [];
  const problems: QmError[] = [];
  const reader = createMessageReader({
    limit,
    onMessage: (message) => messages.push(message),
    onProblem: (problem) => problems.push(problem),
  });
  return { reader, messages, problems, push: (text: string) => reader.push(Buffer.from(text)) };
}

const MESSAGE = '{"jsonrpc":"2.0","method":"ping"}';

test("finds messages among noise, counts the noise and keeps samples", () => {
  const { reader, messages, push } = reading();
  push(`one\u001b[2J\n${MESSAGE}\ntwo${MESSAGE}\n`);
  for (let n = 0; n < 100; n++) push(`${"long ".repeat(100)}\n`);

  expect(messages).toHaveLength(2);
  expect(reader.noise).toBe(102);
  expect(reader.samples).toHaveLength(5);
  expect(reader.samples[0]).toBe("one\\u{1b}[2J");
  expect(reader.samples[2]).toHaveLength(200);
});

test("goes on after a line that is too long and answers its request with an error", () => {
  const { reader, messages, problems, push } = reading(200);
  push(`{"jsonrpc":"2.0","id":3,"result":{"text":"${"x".repeat(300)}"}}\n${MESSAGE}\n`);

  expect(messages.map((message) => ("id" in message ? message.id : "told"))).toEqual([3, "told"]);
  expect(reader.noise).toBe(1);
  expect(problems.map(({ code }) => code)).toEqual(["too_large"]);
});

test.each(["x", "{"])("keeps no endless line of %s in memory and counts it as noise", (character) => {
  const { reader, messages, push } = reading(64 * 1024 * 1024);
  const chunk = character.repeat(64 * 1024);
  for (let n = 0; n < 100; n++) push(chunk);
  expect(reader.noise).toBe(1);
  push(`\n${MESSAGE}\n`);

  expect(messages).toHaveLength(1);
  expect(reader.noise).toBe(1);
});

test("reads a last message without a line end", () => {
  const { reader, messages, push } = reading();
  push(MESSAGE);
  reader.end();

  expect(messages).toHaveLength(1);
});
