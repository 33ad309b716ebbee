import { generateText, stepCountIs, streamText, tool } from "ai";
import { expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { createQuartermaster } from "../app/quartermaster.ts";
import { createConfiguredModel } from "../model/configured-model.ts";
import { startModelServer } from "./model-server.ts";
import { createScriptedModel, type ModelScript } from "./scripted-model.ts";

const add = tool({
  description: "Add two numbers.",
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => a + b,
});
const script: ModelScript = [
  { text: "I add them.", toolCalls: [{ name: "add", args: { a: 2, b: 3 } }] },
  "The sum is 5.",
];
const question = { prompt: "What is 2 + 3?", system: "Be exact.", tools: { add }, stopWhen: stepCountIs(3) };

test("plays its script through generateText and streamText, and records the requests", async () => {
  const [plain, streamed] = [createScriptedModel(script), createScriptedModel(script)];

  const generated = await generateText({ ...question, model: plain });
  const pieces: string[] = [];
  for await (const piece of streamText({ ...question, model: streamed }).textStream) pieces.push(piece);

  expect(generated.text).toBe("The sum is 5.");
  expect(pieces.join("")).toBe("I add them.The sum is 5.");
  expect(pieces.length).toBeGreaterThan(4);
  expect(streamed.requests).toEqual(plain.requests);
  expect(plain.requests[1]).toMatchObject({
    system: "Be exact.",
    messages: [
      { role: "user", text: "What is 2 + 3?" },
      { role: "assistant", text: "I add them.", toolCalls: [{ name: "add", args: { a: 2, b: 3 } }] },
      { role: "tool", results: [{ name: "add", text: "5" }] },
    ],
    tools: [{ name: "add", description: "Add two numbers.", inputSchema: { type: "object" } }],
    toolChoice: "auto",
  });
});

test("answers by a function of the request, and fails when a list is over", async () => {
  const echo = createScriptedModel(({ messages }, at) => `${at}: ${messages.length} messages`);

  expect((await generateText({ model: echo, prompt: "Hi" })).text).toBe("0: 1 messages");
  expect((await generateText({ model: echo, prompt: "Hi" })).text).toBe("1: 1 messages");
  const over = generateText({ model: createScriptedModel([]), prompt: "Hi", maxRetries: 0 });
  await expect(over).rejects.toThrow("the script has no answer for request 1");
  // In a turn of an actor, too, the error says so.
  const qm = await createQuartermaster({ models: { default: createScriptedModel([]) } });
  onTestFinished(() => qm.close());
  expect((await qm.callActor("default", "Hi")).error?.error).toBe("the script has no answer for request 1");
});

test("gives the same answers over HTTP, whole and streamed", async () => {
  const answer = {
    reasoning: "An easy one.",
    text: "I add them.",
    toolCalls: [
      { name: "add", args: { a: 2, b: 3 } },
      { name: "add", args: "{not json" },
    ],
    tokens: { input: 20, output: 10 },
  };
  const model = createScriptedModel([answer, answer, { text: "It was a", finish: "length" }]);
  const server = await startModelServer(model);
  onTestFinished(server.close);
  const client = createConfiguredModel({ provider: "openai-compatible", model: "any", retries: 0 }, () => {
    return { baseUrl: server.url };
  });
  const schema = { type: "object", properties: { a: { type: "number" } } };
  const never = new AbortController().signal;
  const request = {
    system: "Be exact.",
    messages: [
      { role: "user", text: "What is 2 + 3?" },
      { role: "assistant", text: "", toolCalls: [{ id: "c1", name: "add", args: { a: 1 } }] },
      { role: "tool", results: [{ id: "c1", name: "add", text: "1" }] },
    ],
    tools: [{ name: "add", description: "Add two numbers.", inputSchema: schema }],
    toolChoice: { tool: "add" },
    outputSchema: schema,
    maxOutputTokens: 50,
    temperature: 0,
  } as const;

  const pieces: string[] = [];
  const [whole, streamed] = [
    await client.generate(request, never),
    await client.generate(request, never, (piece) => pieces.push(piece)),
  ];

  expect(whole).toMatchObject({
    message: { text: "I add them.", toolCalls: [{ args: { a: 2, b: 3 } }, { args: "{not json" }] },
    finish: "tool-calls",
    inputTokens: 20,
    outputTokens: 10,
  });
  expect(streamed.message.toolCalls.map(({ args }) => args)).toEqual(whole.message.toolCalls.map(({ args }) => args));
  expect({ ...streamed, message: streamed.message.text }).toEqual({ ...whole, message: whole.message.text });
  expect(JSON.stringify([whole.message.raw, streamed.message.raw]).match(/An easy one/g)).toHaveLength(2);
  expect(pieces).toEqual(["I", " add", " them."]);
  expect(model.requests.map(({ messages, ...rest }) => ({ ...rest, messages }))).toEqual([request, request]);
  expect((await client.generate({ messages: [] }, never)).finish).toBe("length");
  await expect(client.generate({ messages: [] }, never)).rejects.toThrow("no answer for request 4");
  const failed: string[] = [];
  await expect(client.generate({ messages: [] }, never, (piece) => failed.push(piece))).rejects.toThrow("request 5");
});

test("refuses other paths and bodies over HTTP", async () => {
  const server = await startModelServer(createScriptedModel([]));
  onTestFinished(server.close);

  const answers = await Promise.all([
    fetch(`${server.url}/embeddings`, { method: "POST", body: "{}" }),
    fetch(`${server.url}/chat/completions`, { method: "POST", body: "not json" }),
    fetch(`${server.url}/chat/completions`),
  ]);

  expect(answers.map(({ status }) => status)).toEqual([400, 400, 400]);
});
