import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { QmError } from "../core/errors.ts";
import type { ModelRequest } from "../core/model.ts";
import { createConfiguredModel, type ModelEndpoint, type ModelSettings } from "./configured-model.ts";
import { type ScriptedAnswer, startScriptedServer } from "./testing.ts";

const KEY = "sk-proj-abcdefghijklmnop";
const HELLO: ModelRequest = { messages: [{ role: "user", text: "Hello" }] };
const NOW = { "retry-after": "0" };
const never = new AbortController().signal;

async function startServer(...script: ScriptedAnswer[]) {
  const server = await startScriptedServer(...script);
  onTestFinished(server.close);
  return server;
}

function createModel(endpoint: ModelEndpoint, settings: Partial<ModelSettings> = {}) {
  return createConfiguredModel({ provider: "openai-compatible", model: "small", ...settings }, () => endpoint);
}

/** The error of a request to a server with these answers, and how many requests it got. */
async function failWith(script: ScriptedAnswer[], settings: Partial<ModelSettings> = {}) {
  const server = await startServer(...script);
  const model = createModel({ baseUrl: server.url, apiKey: KEY }, settings);
  const error = await model.generate(HELLO, never).then(
    () => new Error("it was answered"),
    (thrown: unknown) => thrown as Error,
  );
  if (!(error instanceof QmError)) throw error;
  const shown = JSON.stringify([error.message, error.hint, error.stack, error.details, String(error.cause)]);
  return { error, shown, sent: server.requests.length };
}

describe.each(["openai-compatible", "anthropic"] as const)("a model with the API %s", (provider) => {
  test("answers with text, and its key is sent", async () => {
    const server = await startServer({ text: "Hi.", tokens: { input: 7, output: 3 } });

    const answer = await createModel({ baseUrl: server.url, apiKey: KEY }, { provider }).generate(
      { system: "Be short.", ...HELLO },
      never,
    );

    expect(answer).toEqual({
      message: { role: "assistant", text: "Hi.", toolCalls: [] },
      finish: "stop",
      inputTokens: 7,
      outputTokens: 3,
      attempts: 1,
    });
    const { path, headers, body } = server.requests[0] ?? {};
    expect(path).toBe(provider === "anthropic" ? "/v1/messages" : "/v1/chat/completions");
    expect([headers?.["x-api-key"], headers?.authorization]).toContain(
      provider === "anthropic" ? KEY : `Bearer ${KEY}`,
    );
    expect(body).toMatchObject({ model: "small" });
    expect(JSON.stringify(body)).toContain("Be short.");
  });

  test("calls tools under names that the API allows, and reads the names back", async () => {
    const names = ["mcp__github__create_issue", "agent.peer__ask", `mcp__long__${"x".repeat(100)}`];
    const tools = names.map((name) => ({ name, description: "A tool.", inputSchema: { type: "object" } }));
    const first = await startServer({ text: "" });
    await createModel({ baseUrl: first.url }, { provider }).generate({ ...HELLO, tools }, never);
    const offered = listOfferedNames(first.requests[0]?.body);
    for (const name of offered) expect(name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
    const toolCalls = offered.map((name, at) => ({ id: `c${at}`, name, input: { at } }));
    const second = await startServer({ toolCalls }, { text: "Done." });
    const model = createModel({ baseUrl: second.url }, { provider });

    const { message, finish } = await model.generate({ ...HELLO, tools, toolChoice: "required" }, never);
    const results = message.toolCalls.map(({ id, name }) => ({ id, name, text: `result of ${id}` }));
    const next: ModelRequest = { messages: [...HELLO.messages, message, { role: "tool", results }], tools };
    const last = await model.generate(next, never);

    expect(finish).toBe("tool-calls");
    expect(message.toolCalls).toEqual(names.map((name, at) => ({ id: `c${at}`, name, args: { at } })));
    expect(last.message.text).toBe("Done.");
    const sent = JSON.stringify(second.requests[1]?.body);
    for (const [at, name] of offered.entries()) {
      expect(sent).toContain(name);
      expect(sent).toContain(`result of c${at}`);
    }
  });

  test("is asked for an answer of a schema, with the smaller limit of tokens", async () => {
    const server = await startServer({ text: '{"a":1}' }, { text: '{"a":1}', isCut: true });
    const outputSchema = { type: "object", properties: { a: { type: "number" } }, required: ["a"] };
    const model = createModel({ baseUrl: server.url }, { provider, maxOutputTokens: 50 });

    await model.generate({ ...HELLO, outputSchema, maxOutputTokens: 20 }, never);
    const cut = await model.generate(HELLO, never);

    const [one, two] = server.requests.map(({ body }) => body);
    expect([one?.max_tokens, two?.max_tokens]).toEqual([20, 50]);
    expect(JSON.stringify(one)).toContain('"required":["a"]');
    expect(cut.finish).toBe("length");
  });

  test("repeats a request that the server is too busy for", async () => {
    const busy = { status: 429, headers: NOW, body: { error: { message: "Slow down." } } };
    const server = await startServer(busy, { status: 503, headers: NOW }, { text: "Hi." });

    const answer = await createModel({ baseUrl: server.url }, { provider }).generate(HELLO, never);

    expect(answer).toMatchObject({ attempts: 3, message: { text: "Hi." } });
  });

  test("refuses a wrong key without showing it", async () => {
    const body = { type: "error", error: { type: "authentication_error", message: `Wrong key: ${KEY.slice(0, 12)}…` } };

    const { error, shown, sent } = await failWith([{ status: 401, body }], { provider });

    expect(error).toMatchObject({ code: "model_refused", message: 'the language model "small" answered 401' });
    expect(error.hint).toContain("api_key");
    expect(shown).not.toContain("sk-proj");
    expect(sent).toBe(1);
  });
});

test("returns signed reasoning with the next request", async () => {
  const thinking = { text: "Let me think.", signature: "c2lnbmVk" };
  const toolCalls = [{ id: "t1", name: "file__read", input: { path: "a" } }];
  const server = await startServer({ thinking, toolCalls }, { text: "Done." });
  const model = createModel(
    { baseUrl: server.url, apiKey: KEY },
    { provider: "anthropic", model: "claude-sonnet-4-5" },
  );

  const { message } = await model.generate(HELLO, never);
  // As it is when an unfinished conversation was stored.
  const stored = JSON.parse(JSON.stringify(message)) as typeof message;
  const results = [{ id: "t1", name: "file__read", text: "content" }];
  await model.generate({ messages: [...HELLO.messages, stored, { role: "tool", results }] }, never);

  const messages = server.requests[1]?.body.messages as readonly { readonly role: string; readonly content: unknown }[];
  expect(messages.find(({ role }) => role === "assistant")?.content).toEqual([
    { type: "thinking", thinking: thinking.text, signature: thinking.signature },
    { type: "tool_use", id: "t1", name: "file__read", input: { path: "a" } },
  ]);
});

test("keeps arguments that are not JSON as the model wrote them", async () => {
  const server = await startServer({
    toolCalls: [
      { id: "a", name: "t", input: "{not json" },
      { id: "b", name: "t", input: "" },
    ],
  });

  const { message } = await createModel({ baseUrl: server.url }).generate(HELLO, never);

  expect(message.toolCalls.map(({ args }) => args)).toEqual(["{not json", {}]);
});

test("estimates the tokens when the server reports none", async () => {
  const server = await startServer({ text: "x".repeat(400), tokens: null });

  const { inputTokens, outputTokens } = await createModel({ baseUrl: server.url }).generate(HELLO, never);

  expect(inputTokens).toBeGreaterThan(0);
  expect(outputTokens).toBeGreaterThan(90);
});

describe("a request fails", () => {
  test("after the retries, when the server keeps failing", async () => {
    const down = { status: 500, headers: NOW, body: { error: { message: `Down\u001b[2J.` } } };

    const { error, sent } = await failWith([down, down, down, down]);

    expect(error).toMatchObject({ code: "model_failed", retryable: true, details: { attempts: 3 } });
    expect(error.message).toContain("answered 500: ");
    expect(error.message).not.toContain("\u001b");
    expect(sent).toBe(3);
  });

  test("at once with `retries: 0`, and for a request that is not valid", async () => {
    expect((await failWith([{ status: 500 }], { retries: 0 })).sent).toBe(1);
    const { error, sent } = await failWith([{ status: 400, body: { error: { message: "The context is too long." } } }]);
    expect(error).toMatchObject({
      code: "model_refused",
      message: expect.stringContaining("The context is too long."),
    });
    expect(sent).toBe(1);
  });

  test("with `timed_out` when the server does not answer, without a second attempt", async () => {
    const { error, sent } = await failWith([() => {}], { timeoutMs: 100 });

    expect(error).toMatchObject({ code: "timed_out", message: expect.stringContaining("within 100 ms") });
    expect(sent).toBe(1);
  });

  test("when the answer has no end", async () => {
    let written = 0;
    const endless: ScriptedAnswer = (response) => {
      response.writeHead(200, { "content-type": "application/json" });
      const more = () => {
        while (response.writable && response.write(" ".repeat(64 * 1024))) written += 64 * 1024;
      };
      response.on("drain", more);
      more();
    };

    const { error, sent } = await failWith([endless]);

    expect(error).toMatchObject({ code: "model_failed", message: expect.stringContaining("more than 4 MiB") });
    expect(written).toBeLessThan(64 * 2 ** 20);
    expect(sent).toBe(1);
  });

  test.each([
    ["is not JSON", { status: 200, body: "<html>" }],
    ["has no choice", { status: 200, body: { choices: [] } }],
    ["is empty", { status: 204 }],
  ])("when the answer %s", async (_what, answer) => {
    const { error, sent } = await failWith([answer]);

    expect(error).toMatchObject({ code: "model_failed", message: expect.stringContaining("in the form of its API") });
    expect(sent).toBe(1);
  });

  test("when the server redirects, so that the key goes nowhere else", async () => {
    const other = await startServer({ text: "Give me the key." });

    const { error } = await failWith([{ status: 307, headers: { location: `${other.url}/chat/completions` } }]);

    expect(error).toMatchObject({ code: "model_refused", hint: expect.stringContaining("base_url") });
    expect(other.requests).toEqual([]);
  });

  test("when no server listens, after the retries", async () => {
    const model = createModel({ baseUrl: `http://127.0.0.1:${await findClosedPort()}/v1` }, { retries: 0 });

    await expect(model.generate(HELLO, never)).rejects.toMatchObject({
      code: "model_failed",
      message: 'the language model "small" cannot be reached (ECONNREFUSED)',
    });
  });

  test("when the URL has a port that no request may use", async () => {
    const model = createModel({ baseUrl: "http://127.0.0.1:9/v1" }, { retries: 0 });

    await expect(model.generate(HELLO, never)).rejects.toMatchObject({
      message: 'the language model "small" cannot be reached',
    });
  });

  test("but not when the connection is lost only once", async () => {
    const lost: ScriptedAnswer = (response) => {
      response.writeHead(200, { "content-length": "100" });
      response.write("{", () => response.destroy());
    };
    const server = await startServer(lost, { text: "Hi." });

    expect(await createModel({ baseUrl: server.url }).generate(HELLO, never)).toMatchObject({ attempts: 2 });
  });

  test("with the reason of the signal, also while it waits for the next attempt", async () => {
    const cancelled = new QmError("cancelled", "the call was cancelled");
    const controller = new AbortController();
    const server = await startServer((response) => {
      response
        .writeHead(429, { "retry-after": "3600" })
        .end("{}", () => setImmediate(() => controller.abort(cancelled)));
    });

    await expect(createModel({ baseUrl: server.url }).generate(HELLO, controller.signal)).rejects.toBe(cancelled);
    await expect(createModel({ baseUrl: server.url }).generate(HELLO, AbortSignal.abort())).rejects.toMatchObject({
      code: "cancelled",
    });
    expect(server.requests).toHaveLength(1);
  });

  test("without a part of the key, when the server repeats it", async () => {
    const body = { error: { message: `The key ${KEY.slice(3, 14)} may not use this model.` } };

    const { error, shown } = await failWith([{ status: 400, body }]);

    expect(error.message).toBe('the language model "small" answered 400');
    expect(shown).not.toContain(KEY.slice(3, 14));
  });
});

describe("a model cannot be used", () => {
  test.each([
    ["without a key for the default server", {}, "no api_key"],
    ["with a URL that is none", { baseUrl: "nonsense" }, "base_url"],
    ["with a password in the URL", { baseUrl: "https://a:b@example.com/v1" }, "base_url"],
    ["with a query in the URL", { baseUrl: "https://example.com/v1?a=1" }, "base_url"],
    ["with a key over http", { baseUrl: "http://example.com/v1", apiKey: KEY }, "unencrypted"],
    ["with a key that no header takes", { baseUrl: "https://example.com/v1", apiKey: "sk\u0000-ä" }, "api_key"],
  ])("%s", async (_what, endpoint, reason) => {
    const model = createModel(endpoint);

    expect(model.findProblem?.()).toContain(reason);
    await expect(model.generate(HELLO, never)).rejects.toMatchObject({ code: "invalid_config" });
  });

  test("while its key has no value, and can be used when it has one", () => {
    let apiKey: string | undefined;
    const model = createConfiguredModel({ provider: "anthropic", model: "m" }, () => {
      if (apiKey === undefined) throw new QmError("invalid_config", "models.default.api_key: the secret K is missing");
      return { apiKey };
    });

    expect(model.findProblem?.()).toContain("the secret K is missing");
    apiKey = KEY;
    expect(model.findProblem?.()).toBeUndefined();
  });

  test("but can be used without a key, also over http", () => {
    expect(createModel({ baseUrl: "http://127.0.0.1:11434/v1" }).findProblem?.()).toBeUndefined();
    expect(createModel({ baseUrl: "http://localhost:11434/v1", apiKey: KEY }).findProblem?.()).toBeUndefined();
    expect(createModel({ baseUrl: "http://192.168.1.5:11434/v1" }).findProblem?.()).toBeUndefined();
  });
});

test("takes no key and no URL from the environment", async () => {
  vi.stubEnv("ANTHROPIC_API_KEY", KEY);
  vi.stubEnv("ANTHROPIC_BASE_URL", "https://elsewhere.example");
  onTestFinished(() => void vi.unstubAllEnvs());
  const server = await startServer({ text: "Hi." });

  await createModel({ baseUrl: server.url }, { provider: "anthropic" }).generate(HELLO, never);

  expect(JSON.stringify(server.requests[0]?.headers)).not.toContain(KEY);
});

test("limits the answer of OpenAI's own models by the field that they know", async () => {
  const bodies: unknown[] = [];
  const fetching = vi.spyOn(globalThis, "fetch").mockImplementation(async (_url, init) => {
    bodies.push(JSON.parse(String(init?.body)));
    return new Response(null, { status: 400 });
  });
  onTestFinished(() => fetching.mockRestore());

  const asked = createModel({ apiKey: KEY }).generate({ ...HELLO, maxOutputTokens: 20 }, never);

  await expect(asked).rejects.toMatchObject({ code: "model_refused" });
  expect(bodies[0]).toMatchObject({ max_completion_tokens: 20 });
  expect(bodies[0]).not.toHaveProperty("max_tokens");
});

test("asks only for JSON where the server takes no schema", async () => {
  const server = await startServer({ text: "{}" }, { text: "{}" });
  const request = { ...HELLO, outputSchema: { type: "object" } };

  await createModel({ baseUrl: server.url }).generate(request, never);
  await createModel({ baseUrl: server.url }, { structuredOutputs: false }).generate(request, never);

  expect(server.requests.map(({ body }) => body.response_format)).toEqual([
    { type: "json_schema", json_schema: { schema: { type: "object" }, strict: false, name: "response" } },
    { type: "json_object" },
  ]);
});

function listOfferedNames(body: Readonly<Record<string, unknown>> | undefined): readonly string[] {
  const tools = (body?.tools ?? []) as readonly {
    readonly name?: string;
    readonly function?: { readonly name: string };
  }[];
  return tools.map((tool) => tool.name ?? tool.function?.name ?? "");
}

async function findClosedPort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
