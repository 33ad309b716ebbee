import { asSchema } from "ai";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { createQuartermaster, type Quartermaster } from "../src/app/quartermaster.ts";
import { defineAction } from "../src/catalog/define-action.ts";
import type { JsonObject } from "../src/core/json.ts";
import type { SurfaceKind } from "../src/core/surface-choice.ts";
import { toWireName } from "../src/core/wire-names.ts";
import { toAiSdkTools } from "../src/surface/exports/ai-sdk.ts";
import { answerAnthropic, toAnthropicTools } from "../src/surface/exports/anthropic.ts";
import { toLangChainTools } from "../src/surface/exports/langchain.ts";
import {
  answerOpenAiChat,
  answerOpenAiResponses,
  toOpenAiChatTools,
  toOpenAiResponsesTools,
} from "../src/surface/exports/openai.ts";
import type { Surface } from "../src/surface/surface.ts";
import { converseByGenerateText, converseByStreamText } from "./fixtures/scripted-ai-sdk.ts";
import { converseByMessages } from "./fixtures/scripted-anthropic.ts";
import { converseByAgent } from "./fixtures/scripted-langchain.ts";
import { type Converse, LAST_WORDS, type ScriptedCall, type ShownAnswer } from "./fixtures/scripted-model.ts";
import { converseByChat, converseByResponses } from "./fixtures/scripted-openai.ts";

interface Interface {
  /** The real library, in a loop with a scripted model. */
  readonly converse: Converse;
  /** The exported schemas, as the program receives them. */
  readonly schemas: (surface: Surface) => Promise<unknown[]> | unknown[];
  /** Runs one call with a signal and returns what the model would receive. */
  readonly call: (surface: Surface, name: string, signal: AbortSignal) => Promise<unknown>;
}

const aiSdk = {
  schemas: (surface) =>
    Promise.all(Object.values(toAiSdkTools(surface)).map((tool) => asSchema(tool.inputSchema).jsonSchema)),
  call: async (surface, name, abortSignal) =>
    toAiSdkTools(surface)[name]?.execute?.({}, { abortSignal, toolCallId: "c1", messages: [] }),
} satisfies Omit<Interface, "converse">;

const interfaces: Readonly<Record<string, Interface>> = {
  "AI SDK generateText": { ...aiSdk, converse: converseByGenerateText },
  "AI SDK streamText": { ...aiSdk, converse: converseByStreamText },
  "OpenAI chat": {
    converse: converseByChat,
    schemas: (surface) => toOpenAiChatTools(surface).map((tool) => tool.function.parameters),
    call: (surface, name, signal) =>
      answerOpenAiChat(surface, [{ type: "function", id: "c1", function: { name, arguments: "" } }], signal),
  },
  "OpenAI responses": {
    converse: converseByResponses,
    schemas: (surface) => toOpenAiResponsesTools(surface).map((tool) => tool.parameters),
    call(surface, name, signal) {
      const item = { type: "function_call", call_id: "c1", name, arguments: "{}" };
      return answerOpenAiResponses(surface, [item], signal);
    },
  },
  Anthropic: {
    converse: converseByMessages,
    schemas: (surface) => toAnthropicTools(surface).map((tool) => tool.input_schema),
    call(surface, name, signal) {
      const block = { type: "tool_use", id: "c1", name, input: {} };
      return answerAnthropic(surface, [block], signal === undefined ? {} : { signal });
    },
  },
  LangChain: {
    converse: converseByAgent,
    schemas: (surface) => toLangChainTools(surface).map((tool) => tool.schema),
    call: async (surface, name, signal) =>
      toLangChainTools(surface)
        .find((tool) => tool.name === name)
        ?.invoke({}, { signal }),
  },
};

const kinds = ["universal", "flat"] as const satisfies readonly SurfaceKind[];
const everyInterface = Object.entries(interfaces).map(([name, parts]) => ({ name, ...parts }));
const everyCombination = everyInterface.flatMap((each) => kinds.map((kind) => ({ ...each, kind })));
const withTextArguments = everyCombination.filter(({ name }) => name.startsWith("OpenAI"));

const ALICE = "agent.peer__alice";
const VALUE_LIMIT = 1500;

let qm: Quartermaster;
const add = vi.fn(({ a, b }: { a: number; b: number }) => ({ sum: a + b }));

beforeEach(async () => {
  add.mockClear();
  qm = await createQuartermaster({
    valueLimit: VALUE_LIMIT,
    policy: {
      tools: { denied: ["tool__secret"] },
      rules: [{ rule: "'destructive' in tool.tags", effect: "deny", reason: "Nothing is erased on Sundays." }],
    },
    providers: [
      {
        category: "agent.peer",
        capability: "ask another agent",
        list: () => [
          defineAction("agent.peer", {
            entry: "alice",
            description: "Ask Alice.",
            effect: "read",
            input: z.object({ question: z.string() }),
            run: ({ question }) => `Alice says no to: ${question}`,
          }),
        ],
      },
    ],
  });
  const common = { scope: "generalist", effect: "pure" } as const;
  const nothing = z.object({});
  qm.register({
    ...common,
    name: "add",
    description: "Add two numbers.",
    inputSchema: z.object({ a: z.number(), b: z.number().describe("The other one") }),
    handler: add,
  });
  qm.register({
    ...common,
    name: "erase",
    description: "Erase everything.",
    tags: ["destructive"],
    inputSchema: nothing,
    handler: () => expect.unreachable("it is refused"),
  });
  qm.register({ ...common, name: "secret", description: "Nobody sees it.", inputSchema: nothing, handler: () => 42 });
  qm.register({
    ...common,
    name: "dump",
    description: "Answer more than fits.",
    inputSchema: nothing,
    handler: () => "x".repeat(10 * VALUE_LIMIT),
  });
  qm.register({
    ...common,
    name: "wait",
    description: "Wait until cancelled.",
    inputSchema: nothing,
    handler: (_args, { signal }) => new Promise((_resolve, reject) => signal.addEventListener("abort", reject)),
  });
});

afterEach(() => qm.close());

describe.each(everyCombination)("$name, $kind surface", ({ converse, kind }) => {
  test("lists the surface's tools in order, valid for every provider and without hidden actions", async () => {
    const surface = await qm.surface({}, kind);

    const { tools, text } = await converse(surface, []);

    expect(text).toBe(LAST_WORDS);
    expect(tools.map(({ name }) => name)).toEqual(surface.tools.map(({ name }) => name));
    expect(tools.map(({ description }) => description)).toEqual(surface.tools.map(({ description }) => description));
    for (const { name, schema } of tools) {
      expect(name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
      expect(schema).toMatchObject({ type: "object", properties: expect.any(Object) });
    }
    expect(JSON.stringify(tools)).not.toContain("secret");
  });

  test("produces the same bytes every time", async () => {
    const first = await converse(await qm.surface({}, kind), []);
    const second = await converse(await qm.surface({}, kind), []);

    expect(JSON.stringify(second.tools)).toBe(JSON.stringify(first.tools));
  });

  test("answers parallel calls in order and records each one in the ledger", async () => {
    const surface = await qm.surface({ session: "s1" }, kind);

    const { answers, text } = await converse(surface, [
      [createCall(kind, "tool__add", { a: 1, b: 1 })],
      [
        createCall(kind, "tool__add", { a: 2, b: 3 }),
        createCall(kind, "tool__erase", {}),
        createCall(kind, "tool__add", { a: "two" }),
        createCall(kind, ALICE, { question: "why?" }),
      ],
    ]);

    expect(answers.flat().map(({ id }) => id)).toEqual(["call_0_0", "call_1_0", "call_1_1", "call_1_2", "call_1_3"]);
    const [done, refused, invalid, peer] = answers[1] ?? [];
    expectAnswer(done, true, '{"sum":5}');
    expectAnswer(refused, false, "Nothing is erased on Sundays.");
    expectAnswer(invalid, false, '"input_schema":{"type":"object"', '"example":{"a":1,"b":1}', "/a must be number");
    expectAnswer(peer, true, "Alice says no to: why?");
    expect(text).toBe(LAST_WORDS);
    expect(await readCalls("s1")).toEqual([
      `${ALICE} done ${kind}`,
      `tool__add done ${kind}`,
      `tool__add done ${kind}`,
      `tool__add failed ${kind}`,
      `tool__erase refused ${kind}`,
    ]);
    expect(add).toHaveBeenCalledTimes(2);
  });

  test("cuts a result to the value limit", async () => {
    const { answers } = await converse(await qm.surface({}, kind), [[createCall(kind, "tool__dump", {})]]);

    const text = answers[0]?.[0]?.text ?? "";
    expect(text).toContain(`cut: ${10 * VALUE_LIMIT} characters in all`);
    expect(text.length).toBeLessThanOrEqual(VALUE_LIMIT);
  });

  test("answers a call to an unknown tool and the call next to it", async () => {
    const script = [[{ name: "no_such_tool", args: {} }, createCall(kind, "tool__add", { a: 1, b: 1 })]];

    const { answers } = await converse(await qm.surface({}, kind), script);

    expectAnswer(answers[0]?.[0], false, "no_such_tool");
    expectAnswer(answers[0]?.[1], true, '{"sum":2}');
  });

  test("treats a hidden action as unknown", async () => {
    const { answers } = await converse(await qm.surface({ session: "s2" }, kind), [
      [createCall(kind, "tool__secret", {})],
    ]);

    expectAnswer(answers[0]?.[0], false, "tool__secret");
    expect(answers[0]?.[0]?.text).not.toContain("42");
    expect(await readCalls("s2")).not.toContain(`tool__secret done ${kind}`);
  });
});

describe.each(everyInterface)("$name", ({ converse, schemas, call }) => {
  test("lets a model find and run an action", async () => {
    const { answers, text } = await converse(await qm.surface(), [
      [{ name: "list_actions", args: { category: ["tool"] } }],
      [createCall("universal", "tool__add", { a: 2, b: 3 })],
    ]);

    expectAnswer(answers[0]?.[0], true, "tool__add", "input_schema");
    expect(answers[0]?.[0]?.text).not.toContain("secret");
    expectAnswer(answers[1]?.[0], true, '{"sum":5}');
    expect(text).toBe(LAST_WORDS);
  });

  test("exports the schema that describe_action returns", async () => {
    const universal = await qm.surface();

    const { tools } = await converse(await qm.surface({}, "flat"), []);

    for (const name of qm.names()) {
      const { data } = await universal.call("describe_action", { action_name: name });
      const shown = tools.find((tool) => tool.name === toWireName(name));
      expect(shown?.schema).toEqual((data as { input_schema: unknown }).input_schema);
    }
  });

  test("exports schemas that callers may mutate safely", async () => {
    const surface = await qm.surface({}, "flat");
    const before = JSON.stringify([qm.describe("tool__add"), await schemas(surface)]);

    for (const schema of (await schemas(surface)) as { properties: JsonObject; extra?: boolean }[]) {
      schema.extra = true;
      for (const key of Object.keys(schema.properties)) Reflect.deleteProperty(schema.properties, key);
    }

    expect(JSON.stringify([qm.describe("tool__add"), await schemas(surface)])).toBe(before);
  });

  test("forwards the abort signal", async () => {
    const abort = new AbortController();
    const answer = call(await qm.surface({ session: "s3" }, "flat"), "tool__wait", abort.signal);
    await vi.waitFor(async () => expect(await qm.ledger.read({ session: "s3" })).not.toEqual([]));

    abort.abort();

    expect(JSON.stringify(await answer)).toContain("cancelled");
    expect(await readCalls("s3")).toEqual(["tool__wait failed flat"]);
  });

  test("moves root keywords that providers reject into the description", async () => {
    const properties = { id: { type: "string" }, name: { type: "string" } };
    const anyOf = [{ required: ["id"] }, { required: ["name"] }];
    const common = { scope: "generalist", effect: "pure", handler: () => "found" } as const;
    qm.register({
      ...common,
      name: "find",
      description: "Find one.",
      inputSchema: { type: "object", properties, anyOf },
    });
    qm.register({ ...common, name: "ping", description: "Ping.", inputSchema: { type: "object" } });

    const { tools, answers } = await converse(await qm.surface({}, "flat"), [
      [
        { name: "tool__find", args: {} },
        { name: "tool__find", args: { id: "1" } },
        { name: "tool__ping", args: {} },
      ],
    ]);

    expect(tools.find(({ name }) => name === "tool__find")).toEqual({
      name: "tool__find",
      description: `Find one.\nThe arguments must also fit ${JSON.stringify({ anyOf })}`,
      schema: { type: "object", properties },
    });
    expect(tools.find(({ name }) => name === "tool__ping")?.schema).toEqual({ type: "object", properties: {} });
    expectAnswer(answers[0]?.[0], false, "invalid_arguments", '"anyOf"');
    expectAnswer(answers[0]?.[1], true, "found");
    expectAnswer(answers[0]?.[2], true, "found");
  });
});

describe.each(withTextArguments)("$name, $kind surface", ({ converse, kind }) => {
  test("answers invalid JSON with the error, the schema and an example", async () => {
    const tool = kind === "flat" ? "tool__add" : "invoke_action";
    const script = [[{ name: tool, args: '{"a": 1, "b":' }, createCall(kind, "tool__add", { a: 1, b: 1 })]];

    const { answers } = await converse(await qm.surface({}, kind), script);

    expectAnswer(answers[0]?.[0], false, "The arguments are not JSON: ", '"input_schema"', '"example"');
    expectAnswer(answers[0]?.[1], true, '{"sum":2}');
    expect(add).toHaveBeenCalledTimes(1);
  });
});

test("records a call with invalid JSON in the ledger", async () => {
  const surface = await qm.surface({ session: "s4" }, "flat");

  await answerOpenAiChat(surface, [{ id: "c1", type: "function", function: { name: "tool__add", arguments: "{" } }]);

  expect(await readCalls("s4")).toEqual(["tool__add failed flat"]);
});

test("accepts arguments sent as an object and ignores other kinds of calls", async () => {
  const surface = await qm.surface({}, "flat");
  const asObject = { name: "tool__add", arguments: { a: 1, b: 2 } as unknown as string };

  const answers = await answerOpenAiChat(surface, [
    { id: "c1", type: "custom" },
    { id: "c2", type: "function", function: asObject },
  ]);

  expect(answers).toEqual([{ role: "tool", tool_call_id: "c2", content: '{"sum":3}' }]);
  expect(await answerOpenAiChat(surface, undefined)).toEqual([]);
});

test("cuts a description that is too long for Chat Completions", async () => {
  const description = "Long. ".repeat(500);
  qm.register({
    name: "long",
    description,
    scope: "generalist",
    effect: "pure",
    inputSchema: { type: "object" },
    handler: () => null,
  });
  const surface = await qm.surface({}, "flat");

  const chat = toOpenAiChatTools(surface).find((tool) => tool.function.name === "tool__long");
  const responses = toOpenAiResponsesTools(surface).find((tool) => tool.name === "tool__long");

  expect(chat?.function.description).toHaveLength(1024);
  expect(responses?.description).toBe(description.trim());
});

test("returns the whole result to AI SDK and LangChain programs", async () => {
  const surface = await qm.surface({}, "flat");
  const options = { toolCallId: "c1", messages: [] };
  const dump = toLangChainTools(surface).find(({ name }) => name === "tool__dump");

  const output = await toAiSdkTools(surface).tool__dump?.execute?.({}, options);
  const message = await dump?.invoke({ type: "tool_call", id: "c1", name: "tool__dump", args: {} });

  const whole = { ok: true, data: "x".repeat(10 * VALUE_LIMIT) };
  expect(output).toMatchObject(whole);
  expect(message).toMatchObject({ tool_call_id: "c1", status: "success", artifact: whole });
});

/** An action call as the model sends it through a surface. */
function createCall(kind: SurfaceKind, action: string, args: JsonObject): ScriptedCall {
  return kind === "universal"
    ? { name: "invoke_action", args: { action_name: action, args } }
    : { name: toWireName(action), args };
}

/** OpenAI has no field for failure, so only the text reports it there. */
function expectAnswer(answer: ShownAnswer | undefined, ok: boolean, ...parts: readonly string[]): void {
  expect(answer?.failed ?? !ok).toBe(!ok);
  for (const part of parts) expect(answer?.text).toContain(part);
}

/** Every call of a session, as `action status via`, sorted because the calls of one step run in parallel. */
async function readCalls(session: string): Promise<readonly string[]> {
  const received = await qm.ledger.read({ session, type: "call.received" });
  const ended = await qm.ledger.read({ session, type: "call.ended" });
  return received
    .map(({ callId, data }) => {
      const end = ended.find((event) => event.callId === callId)?.data as { action?: string; status?: string };
      return `${end?.action} ${end?.status} ${(data as { via: string }).via}`;
    })
    .sort();
}
