import { MockLanguageModelV3 } from "ai/test";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { cleanUp, qm as command, createTestFolder } from "../src/cli/testing.ts";
import type { Model } from "../src/core/model.ts";
import { recordCase } from "../src/evals/record-case.ts";
import {
  createQuartermaster,
  openWorkspace,
  QmError,
  type Quartermaster,
  type QuartermasterOptions,
} from "../src/index.ts";
import { type ScriptedAnswer, startScriptedServer } from "../src/model/testing.ts";

afterEach(cleanUp);

/** A model that answers each request with the same number of tokens. */
function createScriptedModel(changes: Partial<Model> = {}): Model & { readonly asked: string[] } {
  const asked: string[] = [];
  return {
    name: "scripted",
    asked,
    async generate({ messages }) {
      asked.push(JSON.stringify(messages));
      const message = { role: "assistant", text: `answer ${asked.length}`, toolCalls: [], raw: ["signed"] } as const;
      return { message, finish: "stop", inputTokens: 60, outputTokens: 40 };
    },
    ...changes,
  };
}

/** A quartermaster with `tool__ask`, which sends its texts to the model, and `tool__plain`, which asks no model. */
async function openWithModel(options: QuartermasterOptions): Promise<Quartermaster> {
  const qm = await createQuartermaster(options);
  onTestFinished(() => qm.close());
  registerAsk(qm);
  return qm;
}

function registerAsk(qm: Quartermaster): void {
  const common = { scope: "generalist", effect: "read" } as const;
  qm.register({
    ...common,
    name: "ask",
    description: "Asks the model.",
    inputSchema: z.object({ texts: z.array(z.string()) }),
    async handler({ texts }, { model }) {
      const answers: string[] = [];
      for (const text of texts)
        answers.push((await model?.({ messages: [{ role: "user", text }] }))?.message.text ?? "");
      return { answers, has_model: model !== undefined };
    },
  });
  qm.register({
    ...common,
    name: "plain",
    description: "Asks no model.",
    inputSchema: z.object({}),
    handler: () => "ok",
  });
}

const readModelEvents = async (qm: Quartermaster) => {
  await qm.ledger.flush();
  return (await qm.ledger.read({ type: "model.called" })).map(({ data }) => data as Record<string, unknown>);
};

const caller = { session: "s1", turn: "t1", tenant: "acme" };

describe("a model of the host", () => {
  test("may be one of the AI SDK", async () => {
    const usage = {
      inputTokens: { total: 3, noCache: 3, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: 2, text: 2, reasoning: 0 },
    };
    const model = new MockLanguageModelV3({
      modelId: "mock",
      doGenerate: {
        content: [{ type: "text", text: "Hi." }],
        finishReason: { unified: "stop", raw: "stop" },
        usage,
        warnings: [],
      },
    });
    const qm = await openWithModel({ models: { default: model } });

    const outcome = await qm.invoke("tool__ask", { texts: ["Hello"] });

    expect(outcome).toMatchObject({ status: "done", data: { answers: ["Hi."] } });
    expect(model.doGenerateCalls[0]?.prompt).toEqual([{ role: "user", content: [{ type: "text", text: "Hello" }] }]);
    expect(await readModelEvents(qm)).toMatchObject([{ model: "mock", inputTokens: 3, outputTokens: 2, attempts: 1 }]);
  });

  test("of the AI SDK shows no message about a wrong key", async () => {
    const responseBody = JSON.stringify({ error: { message: "Wrong key: blue-river" } });
    const failed = Object.assign(new Error("Wrong key: blue-river"), { statusCode: 401, responseBody });
    const model = new MockLanguageModelV3({ modelId: "mock", doGenerate: () => Promise.reject(failed) });
    const qm = await openWithModel({ models: { default: model } });

    const outcome = await qm.invoke("tool__ask", { texts: ["Hello"] });

    expect(outcome).toMatchObject({
      error: { code: "model_refused", error: 'the language model "mock" answered 401' },
    });
    expect(JSON.stringify(outcome)).not.toContain("blue-river");
  });

  test("is not given to handlers under another name than default", async () => {
    const qm = await openWithModel({ models: { other: createScriptedModel() } });

    expect(await qm.invoke("tool__ask", { texts: [] })).toMatchObject({ data: { has_model: false } });
  });

  test.each([
    ["without methods", { name: "m" }, "expected a Model"],
    ["of another version of the AI SDK", { specificationVersion: "v2", doGenerate() {} }, "version v2, expected v3"],
  ])("is refused %s", async (_what, model, message) => {
    await expect(createQuartermaster({ models: { default: model as never } })).rejects.toMatchObject({
      code: "invalid_config",
      message: expect.stringContaining(message),
    });
  });
});

describe("a request to a model", () => {
  test("is recorded with its tokens, cost and texts, without secrets", async () => {
    const price = { input: 3, output: 15 };
    const model = createScriptedModel({ price });
    const qm = await openWithModel({
      models: { default: model },
      redact: { secrets: () => [{ name: "PIN", value: "hunter2-hunter2" }] },
    });

    const { callId } = await qm.invoke("tool__ask", { texts: ["The code is hunter2-hunter2."] }, { caller });

    expect(model.asked[0]).toContain("hunter2-hunter2");
    expect(await readModelEvents(qm)).toEqual([
      {
        callId,
        model: "scripted",
        finish: "stop",
        inputTokens: 60,
        outputTokens: 40,
        cost: (60 * 3 + 40 * 15) / 1e6,
        attempts: 1,
        durationMs: expect.any(Number),
        request: { messages: [{ role: "user", text: "The code is [redacted]." }] },
        answer: { role: "assistant", text: "answer 1", toolCalls: [] },
      },
    ]);
  });

  test("is cut and hashed in the ledger when it is long", async () => {
    const qm = await openWithModel({ models: { default: createScriptedModel() } });

    await qm.invoke("tool__ask", { texts: ["word ".repeat(10_000)] });

    const [event] = await readModelEvents(qm);
    expect(event).toMatchObject({
      request: { cut: expect.any(String) },
      requestHash: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect(JSON.stringify(event).length).toBeLessThan(10_000);
  });

  test("that fails is recorded with its code, and the call fails with it", async () => {
    const failed = new QmError("model_failed", "the language model is down", { details: { attempts: 3 } });
    const qm = await openWithModel({
      models: { default: createScriptedModel({ generate: () => Promise.reject(failed) }) },
    });

    const outcome = await qm.invoke("tool__ask", { texts: ["Hello"] });

    expect(outcome).toMatchObject({
      status: "failed",
      error: { code: "model_failed", error: "the language model is down" },
    });
    expect(await readModelEvents(qm)).toMatchObject([
      { code: "model_failed", attempts: 3, answer: null, inputTokens: 0 },
    ]);
  });

  test("ends with the call", async () => {
    const generate: Model["generate"] = (_request, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    const qm = await openWithModel({ models: { default: createScriptedModel({ generate }) } });

    const outcome = await qm.invoke("tool__ask", { texts: ["Hello"] }, { timeoutMs: 20 });

    expect(outcome).toMatchObject({ status: "failed", error: { code: "timed_out" } });
    await expect.poll(() => readModelEvents(qm)).toMatchObject([{ code: "timed_out" }]);
  });
});

describe("a budget", () => {
  test.each(["turn", "session", "tenant"] as const)(
    "for the tokens of a %s refuses the next request",
    async (scope) => {
      const model = createScriptedModel();
      const qm = await openWithModel({ models: { default: model }, policy: { budgets: { [scope]: { tokens: 150 } } } });

      const first = await qm.invoke("tool__ask", { texts: ["a", "b", "c"] }, { caller });
      const second = await qm.invoke("tool__ask", { texts: ["d"] }, { caller });

      const error = {
        code: "budget_exceeded",
        error: expect.stringContaining(`150 tokens of language models for this ${scope}`),
      };
      expect([first, second]).toMatchObject([{ error }, { error }]);
      expect(model.asked).toHaveLength(2);
      expect((await readModelEvents(qm)).map(({ code, attempts }) => [code, attempts])).toEqual([
        [undefined, 1],
        [undefined, 1],
        ["budget_exceeded", 0],
        ["budget_exceeded", 0],
      ]);
      // Only models are refused.
      expect(await qm.invoke("tool__plain", {}, { caller })).toMatchObject({ status: "done" });
      expect(
        await qm.invoke("tool__ask", { texts: ["e"] }, { caller: { session: "s2", tenant: "other" } }),
      ).toMatchObject({
        status: "done",
      });
    },
  );

  test("for costs counts the price, and its usage is in the ledger", async () => {
    const model = createScriptedModel({ price: { input: 10_000, output: 10_000 } });
    const qm = await openWithModel({ models: { default: model }, policy: { budgets: { session: { cost: 1.5 } } } });

    await qm.invoke("tool__ask", { texts: ["a"] }, { caller });
    await qm.invoke("tool__ask", { texts: ["b"] }, { caller });
    const third = await qm.invoke("tool__ask", { texts: ["c"] }, { caller });

    expect(third).toMatchObject({ status: "refused", error: { code: "budget_exceeded" } });
    await qm.ledger.flush();
    const decided = await qm.ledger.read({ type: "call.decided" });
    expect(decided.map(({ data }) => (data as { usage: unknown }).usage)).toMatchObject([
      {},
      { 'session:"s1"': { calls: 1, tokens: 100, cost: 1 } },
      { 'session:"s1"': { calls: 2, tokens: 200, cost: 2 } },
    ]);
  });

  test("of an actor counts only what that actor uses, besides the policy's", async () => {
    const model = createScriptedModel();
    const actors = [
      { name: "default", tools: ["*"] },
      { name: "planner", tools: ["*"], budgets: { session: { tokens: 150 }, tenant: { calls: 3 } } },
    ];
    const policy = { actors, budgets: { session: { tokens: 350 } } };
    const qm = await openWithModel({ models: { default: model }, policy });
    const ask = (actor: string) => qm.invoke("tool__ask", { texts: ["a", "b"] }, { caller: { ...caller, actor } });

    expect(await ask("planner")).toMatchObject({ status: "done" });
    expect(await ask("planner")).toMatchObject({
      error: {
        code: "budget_exceeded",
        error: "The budget of 150 tokens of language models for this session of actor planner is used up.",
      },
    });
    expect(await ask("default")).toMatchObject({ status: "done" });
    expect(await ask("default")).toMatchObject({ error: { error: expect.stringContaining("350 tokens") } });
    expect(await ask("planner")).toMatchObject({ error: { error: expect.stringContaining("350 tokens") } });
    expect(await ask("planner")).toMatchObject({
      error: { error: "The budget of 3 calls for this tenant of actor planner is used up." },
    });
    await qm.ledger.flush();
    const rules = (await qm.ledger.read({ type: "call.decided" })).map(({ data }) => (data as { rule?: string }).rule);
    expect(rules.at(-1)).toBe("actors.planner.budgets.tenant.calls: 3");
  });

  test("for costs refuses a model without a price", async () => {
    const model = createScriptedModel();
    const qm = await openWithModel({ models: { default: model }, policy: { budgets: { session: { cost: 1.5 } } } });

    expect(await qm.invoke("tool__ask", { texts: ["a"] }, { caller })).toMatchObject({
      error: { code: "budget_exceeded", error: expect.stringContaining("has no price") },
    });
    expect(model.asked).toEqual([]);
  });
});

describe("a replay", () => {
  const policy = { budgets: { session: { tokens: 250 } } };

  /** Three calls: two are answered, the third is refused by the budget at its second request. */
  async function recordCalls() {
    const model = createScriptedModel();
    const qm = await openWithModel({ models: { default: model }, policy });
    for (const texts of [["a"], ["b"], ["c", "d"]]) await qm.invoke("tool__ask", { texts }, { caller });
    return { qm, model };
  }

  test("repeats recorded calls without a request", async () => {
    const { qm, model } = await recordCalls();
    expect(model.asked).toHaveLength(3);

    const report = await qm.replay({ session: "s1" });

    expect(report.summary).toMatchObject({ calls: 3, same: 3, different: 0, uncertain: 0 });
    expect(model.asked).toHaveLength(3);
  });

  test("of a recorded case needs no model", async () => {
    const { qm } = await recordCalls();

    const { calls, expected } = await recordCase(qm.ledger, { session: "s1" });

    expect(expected).toEqual({ state: "complete", called: ["tool__ask"] });
    expect(calls[0]).toEqual({
      name: "tool__ask",
      args: { texts: ["a"] },
      outcome: { status: "done", data: { answers: ["answer 1"], has_model: true } },
    });
  });

  test("shows which calls another budget would refuse", async () => {
    const { qm } = await recordCalls();
    const statuses = async (tokens: number | undefined) => {
      const budgets = tokens === undefined ? {} : { session: { tokens } };
      const { calls } = await qm.replay({ session: "s1" }, { policy: { budgets } });
      return calls.map(({ replayed: { status, code = "" } }) => `${status} ${code}`.trim());
    };

    expect(await statuses(150)).toEqual(["done", "done", "refused budget_exceeded"]);
    expect(await statuses(100)).toEqual(["done", "refused budget_exceeded", "refused budget_exceeded"]);
    expect(await statuses(undefined)).toEqual(["done", "done", "unknown"]);
  });
});

describe("a configured model", () => {
  // Not in the form of a key, so that only its value can be recognized.
  const KEY = "blue-river-stone";

  async function configure(script: readonly ScriptedAnswer[], more = "") {
    const server = await startScriptedServer(...script);
    onTestFinished(server.close);
    const model = `{ provider: openai-compatible, model: small, base_url: "${server.url}", api_key: "\${env:MODEL_KEY}" }`;
    const cwd = await createTestFolder({ "quartermaster.yaml": `models:\n  default: ${model}\n${more}` });
    return { server, cwd, env: { MODEL_KEY: KEY } };
  }

  test("answers handlers, and its key is nowhere in the ledger", async () => {
    const { server, cwd, env } = await configure([{ text: `A ${KEY} it is.` }]);
    const workspace = await openWorkspace({ cwd, env });
    onTestFinished(() => workspace.close());
    const qm = workspace.quartermaster;
    registerAsk(qm);

    const outcome = await qm.invoke("tool__ask", { texts: ["Hello"] });

    expect(outcome).toMatchObject({ status: "done" });
    expect(server.requests[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
    await qm.ledger.flush();
    const events = await qm.ledger.read({});
    expect(events.map(({ type }) => type)).toContain("model.called");
    expect(JSON.stringify(events)).not.toContain(KEY);
  });

  test("is listed and tested at the command line", async () => {
    const { cwd, env } = await configure(
      [{ text: "ok", tokens: { input: 12, output: 2 } }, { status: 400 }],
      "  fast: { provider: anthropic, model: quick }\n",
    );

    const listed = await command(cwd, ["models", "list", "--json"], { env });
    const table = await command(cwd, ["models", "list"], { env });
    const tested = await command(cwd, ["models", "test"], { env });
    const failed = await command(cwd, ["models", "test", "--json"], { env });
    const unknown = await command(cwd, ["models", "test", "fats"], { env });

    expect(JSON.parse(listed.out).models).toMatchObject([
      { name: "default", provider: "openai-compatible", model: "small" },
      { name: "fast", problem: expect.stringContaining("no api_key") },
    ]);
    expect(table.out).toMatch(/default +openai-compatible +small +unknown +ready/);
    expect(tested).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^small answered in \d+ ms: 12 tokens read, 2 written\.\n$/),
    });
    expect(failed.code).toBe(1);
    expect(JSON.parse(failed.out)).toMatchObject({ error: { code: "model_refused" } });
    expect(unknown).toMatchObject({ code: 1, err: expect.stringContaining("did you mean fast?") });
    expect(JSON.stringify([listed, table, tested, failed, unknown])).not.toContain(KEY);
  });

  test("without a value of its key stops no other command, and qm doctor says so", async () => {
    const { server, cwd } = await configure([]);

    const checked = await command(cwd, ["doctor"], { env: {} });
    const listed = await command(cwd, ["list"], { env: {} });
    const tested = await command(cwd, ["models", "test"], { env: {} });

    expect(checked.out).toMatch(
      /warn +model +default: models\.default\.api_key: the environment variable MODEL_KEY is not set/,
    );
    expect(listed.code).toBe(0);
    expect(tested).toMatchObject({ code: 2, err: expect.stringContaining("MODEL_KEY is not set") });
    expect(server.requests).toEqual([]);
  });

  test("under another name than default is reported: skills do not use it", async () => {
    const cwd = await createTestFolder({
      "quartermaster.yaml":
        'models: { fast: { provider: openai-compatible, model: m, base_url: "http://127.0.0.1:9/v1" } }\n',
    });

    const { err } = await command(cwd, ["list"]);
    const { out } = await command(cwd, ["doctor"]);

    expect(err).toContain("models.fast is not used: rename it to models.default");
    expect(out.split("models.fast is not used")).toHaveLength(2);
  });

  test("under another name is not reported if an actor names it", async () => {
    const cwd = await createTestFolder({
      "quartermaster.yaml": `
models: { fast: { provider: openai-compatible, model: m, base_url: "http://127.0.0.1:9/v1" } }
actors: { planner: { tools: ["*"], model: fast } }
`,
    });

    expect((await command(cwd, ["list"])).err).toBe("");
  });
});
