import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { z } from "zod";
import {
  actionName,
  type Caller,
  createQuartermaster,
  defineAction,
  defineResource,
  type Quartermaster,
  type QuartermasterOptions,
} from "../src/index.ts";

const open: Quartermaster[] = [];

async function createQm(options: QuartermasterOptions = {}): Promise<Quartermaster> {
  const quartermaster = await createQuartermaster(options);
  open.push(quartermaster);
  return quartermaster;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((quartermaster) => quartermaster.close()));
});

const add = {
  name: "add",
  description: "Add two numbers.",
  inputSchema: z.object({ a: z.number(), b: z.number().default(1) }),
  handler: ({ a, b }: { a: number; b: number }) => a + b,
  scope: "generalist",
  effect: "pure",
} as const;

const types = async (quartermaster: Quartermaster, session = "local") =>
  (await quartermaster.ledger.read({ session })).map(({ type }) => type);

describe("a successful call", () => {
  test("returns whole data and a bounded value, and is recorded in the ledger", async () => {
    const qm = await createQm();
    qm.register({ ...add, handler: () => ({ text: "x".repeat(10_000) }) });

    const outcome = await qm.invoke("tool__add", { a: 1 });

    expect(outcome).toMatchObject({ status: "done", action: "tool__add", data: { text: "x".repeat(10_000) } });
    expect(outcome.value.length).toBeLessThanOrEqual(4096);
    expect(outcome.value).toMatch(/\[cut: 10011 characters in all\]$/);
    expect(await types(qm)).toEqual(["call.received", "call.decided", "call.ended"]);
  });

  test("applies the schema's defaults and zod's own refinements", async () => {
    const qm = await createQm();
    qm.register(add);
    qm.register({
      ...add,
      name: "shout",
      inputSchema: z.object({ text: z.string() }).refine(({ text }) => text !== "no", "not no"),
      handler: ({ text }) => text.toUpperCase(),
    });

    expect(await qm.invoke("tool__add", { a: 2 })).toMatchObject({ data: 3 });
    expect(await qm.invoke("tool__shout", { text: "hi" })).toMatchObject({ data: "HI" });
    expect(await qm.invoke("tool__shout", { text: "no" })).toMatchObject({
      status: "failed",
      error: { code: "invalid_arguments", problems: [{ message: "not no" }] },
    });
  });

  test("passes the caller to the handler and copies the arguments first", async () => {
    const qm = await createQm();
    const seen = vi.fn();
    qm.register({
      ...add,
      inputSchema: { type: "object" },
      handler: async (args, { caller, callId }) => {
        await Promise.resolve();
        seen(args, caller, callId);
      },
    });
    const given = { list: [1] };

    const call = qm.invoke("tool__add", given, {
      caller: { session: "s", turn: "t", user: { id: "u" }, person: "p", tenant: "x" },
    });
    given.list.push(2);
    const { callId } = await call;

    expect(seen).toHaveBeenCalledWith(
      { list: [1] },
      { actor: "default", session: "s", turn: "t", user: { id: "u" }, person: "p", tenant: "x" },
      callId,
    );
  });

  test("records a repaired name and repaired arguments", async () => {
    const qm = await createQm();
    qm.register(add);

    const outcome = await qm.invoke("Tool.ADD", { args: { a: "4" } });

    expect(outcome).toMatchObject({ status: "done", data: 5 });
    const events = await qm.ledger.read({ session: "local" });
    expect(events.map(({ type }) => type)).toEqual([
      "call.received",
      "name.repaired",
      "arguments.repaired",
      "call.decided",
      "call.ended",
    ]);
    expect(events[1]?.data).toMatchObject({ asked: "Tool.ADD", action: "tool__add", how: "respelled" });
    expect(events[2]?.data).toMatchObject({ repairs: ["/args: unwrapped", "/a: string read as number"] });
  });
});

test("an outcome has data when it is done, a reason when it fails, and always a text to show", async () => {
  const qm = await createQm();
  qm.register({ ...add, handler: ({ a }) => (a === 0 ? Promise.reject(new Error("no disk")) : { sum: [a] }) });

  const [done, failed] = [await qm.invoke("tool__add", { a: 1 }), await qm.invoke("tool__add", { a: 0 })];

  expect(done).toMatchObject({ status: "done", data: { sum: [1] }, value: '{"sum":[1]}' });
  expect(done).not.toHaveProperty("reason");
  expect(failed).toMatchObject({ status: "failed", reason: "tool__add failed: no disk", value: expect.any(String) });
  expect(failed).not.toHaveProperty("data");
});

describe("does not run the handler for", () => {
  const createSpied = async (options: QuartermasterOptions, more: object = {}) => {
    const handler = vi.fn(() => 1);
    const qm = await createQm(options);
    qm.register({ ...add, handler, ...more });
    return { qm, handler };
  };

  test.each<[string, QuartermasterOptions, object, unknown, object]>([
    ["invalid arguments", {}, {}, {}, { status: "failed", error: { code: "invalid_arguments", example: { a: 1 } } }],
    [
      "a call denied by a rule",
      { policy: { rules: [{ rule: "true", effect: "deny", reason: "Not on Sundays." }] } },
      {},
      { a: 1 },
      { status: "refused", reason: "Not on Sundays.", error: { code: "denied" } },
    ],
    [
      "a rule that requires approval",
      { policy: { rules: [{ rule: "args.a > 0", effect: "ask" }] } },
      {},
      { a: 1 },
      { status: "waiting", approval: { level: "user" } },
    ],
    [
      "an action that requires approval",
      {},
      { requiresApproval: true },
      { a: 1 },
      { status: "waiting", approval: { level: "user" } },
    ],
    [
      "a hidden action",
      { policy: { tools: { denied: ["add"] } } },
      {},
      { a: 1 },
      { status: "failed", error: { code: "unknown_action" } },
    ],
    [
      "an unusable schema",
      {},
      { inputSchema: { type: "object", properties: { a: { $ref: "#nowhere" } } } },
      { a: 1 },
      { status: "failed", error: { code: "unsafe_schema" } },
    ],
  ])("%s", async (_name, options, more, args, expected) => {
    const { qm, handler } = await createSpied(options, more);

    expect(await qm.invoke("tool__add", args)).toMatchObject(expected);
    expect(handler).not.toHaveBeenCalled();
  });

  test("an unknown actor", async () => {
    const { qm, handler } = await createSpied({});

    expect(await qm.invoke("tool__add", { a: 1 }, { caller: { actor: "defualt" } })).toMatchObject({
      status: "refused",
      error: { code: "unknown_actor", hint: "Did you mean default?" },
    });
    expect(handler).not.toHaveBeenCalled();
  });

  test("a call cancelled before it starts", async () => {
    const { qm, handler } = await createSpied({});

    expect(await qm.invoke("tool__add", { a: 1 }, { signal: AbortSignal.abort() })).toMatchObject({
      status: "failed",
      error: { code: "cancelled" },
    });
    expect(handler).not.toHaveBeenCalled();
  });

  test("a write that the ledger cannot record", async () => {
    const { qm, handler } = await createSpied({}, { effect: "write" });
    await qm.close();
    open.length = 0;

    const outcome = await qm.invoke("tool__add", { a: 1 });

    expect(outcome.status).toBe("failed");
    expect(handler).not.toHaveBeenCalled();
  });
});

describe("a failing handler", () => {
  test.each<[string, () => unknown, object]>([
    [
      "throws",
      () => {
        throw new Error("no disk");
      },
      { code: "action_failed", error: "tool__add failed: no disk" },
    ],
    [
      "returns a cycle",
      () => {
        const a: unknown[] = [];
        a.push(a);
        return a;
      },
      { code: "invalid_output" },
    ],
    ["returns a BigInt", () => 1n, { code: "invalid_output" }],
    [
      "returns a value that violates its output schema",
      () => ({ sum: "3" }),
      { code: "invalid_output", problems: [{ path: "/sum", message: "must be number" }] },
    ],
  ])("%s", async (_name, handler, error) => {
    const qm = await createQm();
    qm.register({ ...add, handler, outputSchema: { type: "object", properties: { sum: { type: "number" } } } });

    expect(await qm.invoke("tool__add", { a: 1 })).toMatchObject({ status: "failed", action: "tool__add", error });
    expect(await types(qm)).toEqual(["call.received", "call.decided", "call.ended"]);
  });

  test("leaks no secret into the ledger", async () => {
    const secret = "hunter2-very-secret";
    const qm = await createQm({ redact: { secrets: () => [secret] } });
    qm.register({
      ...add,
      inputSchema: { type: "object" },
      handler: () => {
        throw new Error(`login with ${secret} failed`);
      },
    });

    await qm.invoke("tool__add", {
      note: `it is ${secret}`,
      password: "other-secret",
      nested: [{ api_key: "k-123456" }],
    });
    await qm.invoke(`tool__${secret}`, {});

    const written = JSON.stringify(await qm.ledger.read({}));
    expect(written).not.toContain(secret);
    expect(written).not.toContain("other-secret");
    expect(written).not.toContain("k-123456");
    expect(written).toContain("[redacted]");
  });
});

describe("budgets", () => {
  test("apply to parallel and sequential calls", async () => {
    const qm = await createQm({ policy: { budgets: { session: { calls: 5 } } } });
    const handler = vi.fn(() => 1);
    qm.register({ ...add, handler });

    const outcomes = await Promise.all(Array.from({ length: 20 }, () => qm.invoke("tool__add", { a: 1 })));

    expect(outcomes.filter(({ status }) => status === "done")).toHaveLength(5);
    expect(handler).toHaveBeenCalledTimes(5);
    expect(await qm.invoke("tool__add", { a: 1 })).toMatchObject({
      status: "refused",
      error: { code: "budget_exceeded" },
    });
    expect(await qm.invoke("tool__add", { a: 1 }, { caller: { session: "another" } })).toMatchObject({
      status: "done",
    });
  });

  test("persist in the store across restarts", async () => {
    const folder = await mkdtemp(join(tmpdir(), "qm-budget-"));
    const store = join(folder, "qm.db");
    const policy = { budgets: { tenant: { calls: 2 } } };
    for (const expected of ["done", "done", "refused"]) {
      const qm = await createQuartermaster({ store, policy });
      qm.register(add);
      expect(await qm.invoke("tool__add", { a: 1 }, { caller: { tenant: "acme" } })).toMatchObject({
        status: expected,
      });
      await qm.close();
    }
    await rm(folder, { recursive: true });
  });

  test("refuse calls of a turn once its bytes are used up", async () => {
    const qm = await createQm({ policy: { budgets: { turn: { bytes: 50 } } } });
    qm.register({ ...add, handler: () => "x".repeat(60) });

    expect(await qm.invoke("tool__add", { a: 1 }, { caller: { turn: "1" } })).toMatchObject({ status: "done" });
    expect(await qm.invoke("tool__add", { a: 1 }, { caller: { turn: "1" } })).toMatchObject({ status: "refused" });
    expect(await qm.invoke("tool__add", { a: 1 }, { caller: { turn: "2" } })).toMatchObject({ status: "done" });
  });
});

describe("a resource", () => {
  const recall = defineAction("rag_operation", {
    entry: "recall",
    description: "Recall from sources.",
    effect: "read",
    input: z.strictObject({ sources: z.array(z.string()), query: z.string() }),
    run: (args) => args,
  });
  const meetings = defineResource("rag_corpus", {
    entry: "meetings",
    description: "Meeting notes.",
    target: recall.name,
    transform: { set: { sources: ["$entry"] } },
  });
  const wrapped = defineResource("skill", {
    entry: "report",
    description: "Write a report.",
    target: actionName("skill_operation", "run"),
    transform: { set: { name: "$entry" }, wrap: "input" },
  });
  const runSkill = defineAction("skill_operation", {
    entry: "run",
    description: "Run a skill.",
    effect: "stateful",
    input: z.object({ name: z.string(), input: z.object({ topic: z.string() }) }),
    run: (args) => args,
  });
  const providers = [[recall], [meetings], [wrapped], [runSkill]].map(([action]) => ({
    category: action?.category ?? "",
    capability: "test",
    list: () => (action ? [action] : []),
  }));

  test("runs its operation with the preset arguments", async () => {
    const qm = await createQm({ providers });

    expect(await qm.invoke("rag_corpus__meetings", { query: "Q3 roadmap" })).toMatchObject({
      data: { sources: ["meetings"], query: "Q3 roadmap" },
    });
    expect(await qm.invoke("skill__report", { topic: "x" })).toMatchObject({
      data: { name: "report", input: { topic: "x" } },
    });
  });

  test("does not let the caller override preset arguments", async () => {
    const qm = await createQm({ providers });

    expect(await qm.invoke("rag_corpus__meetings", { query: "q", sources: ["secret"] })).toMatchObject({
      status: "failed",
      error: { code: "invalid_arguments" },
    });
  });

  test("fails when a preset argument violates the operation's schema", async () => {
    const run = vi.fn();
    const strict = defineAction("op", {
      entry: "go",
      description: "Go.",
      effect: "read",
      input: { type: "object", properties: { of: { type: "string" } } },
      run,
    });
    const wrong = defineResource("res", {
      entry: "a",
      description: "Res.",
      target: strict.name,
      transform: { set: { of: 5 } },
    });
    const qm = await createQm({
      providers: [
        { category: "op", capability: "go", list: () => [strict] },
        { category: "res", capability: "res", list: () => [wrong] },
      ],
    });

    expect(await qm.invoke("res__a", {})).toMatchObject({ status: "failed", error: { code: "invalid_arguments" } });
    expect(run).not.toHaveBeenCalled();
  });

  test("is hidden and refused with its operation", async () => {
    const qm = await createQm({ providers, policy: { tools: { denied: ["rag_operation__*"] } } });

    expect(qm.list({ filter: "meetings" }).total).toBe(0);
    expect(await qm.invoke("rag_corpus__meetings", { query: "q" })).toMatchObject({
      error: { code: "unknown_action" },
    });
  });

  test("is described with its operation", async () => {
    const qm = await createQm({ providers });

    expect(qm.describe("rag_corpus__meetings").metadata).toMatchObject({
      target_tool_name: "rag_operation__recall",
      canonical_default: "runs rag_operation__recall",
      purity: "read",
    });
  });
});

test("a new policy applies to the next decision, and an invalid one changes nothing", async () => {
  const qm = await createQm();
  qm.register(add);

  qm.usePolicy({ tools: { denied: ["add"] } });
  expect(qm.list().total).toBe(0);
  expect(() => qm.usePolicy({ rules: [{ rule: "(", effect: "hide" }] })).toThrow();
  expect(() => qm.usePolicy({ actors: [{ name: "default", tools: ["nonsense"] }] })).toThrow(/does not exist/);
  expect(qm.list().total).toBe(0);
  qm.usePolicy({});
  expect(qm.list().total).toBe(1);
});

test("a policy that is replaced while a call is prepared decides that call", async () => {
  const qm = await createQm();
  const handler = vi.fn(() => "ran");
  qm.register({ ...add, handler });

  const calling = qm.invoke("tool__add", { a: 1 });
  qm.usePolicy({ rules: [{ name: "stop", rule: "true", effect: "deny", reason: "Stopped." }] });

  expect(await calling).toMatchObject({ status: "refused", error: { code: "denied" } });
  expect(handler).not.toHaveBeenCalled();
  const [decided] = await qm.ledger.read({ type: "call.decided" });
  expect(decided?.data).toMatchObject({ decision: "deny", policyVersion: qm.policyVersion });
});

test("attributes of an actor may hold any JSON", async () => {
  const actors = [{ name: "default", tools: ["*"], attributes: { teams: ["x"], "a-b": null } }];

  await expect(createQm({ policy: { actors } })).resolves.toBeDefined();
});

test("rejects a surface for an actor that lists an unknown tool", async () => {
  const qm = await createQm({ policy: { actors: [{ name: "triage", tools: ["task_get"] }] } });

  await expect(qm.surface({ actor: "triage" })).rejects.toThrow(/actor triage lists "task_get", which does not exist/);
});

describe("policy.filtered", () => {
  const filtered = async (qm: Quartermaster) => {
    await qm.ledger.flush();
    return (await qm.ledger.read({ type: "policy.filtered" })).map(({ data }) => data);
  };

  test("names tools that are registered later, once for all that are registered in a row", async () => {
    const qm = await createQm({ policy: { tools: { denied: ["tool__add*"] } } });
    expect(await filtered(qm)).toEqual([]);

    qm.register(add);
    qm.register({ ...add, name: "add2" });
    qm.register({ ...add, name: "other" });

    await vi.waitFor(async () => expect(await filtered(qm)).toHaveLength(1));
    expect(await filtered(qm)).toEqual([{ removed: ["tool__add", "tool__add2"], removedCount: 2, left: 1 }]);
  });

  test("is not recorded again while the same actions are removed", async () => {
    const qm = await createQm({ policy: { tools: { denied: ["tool__add"] } } });
    qm.register(add);
    await vi.waitFor(async () => expect(await filtered(qm)).toHaveLength(1));

    qm.register({ ...add, name: "other" });
    qm.usePolicy({ tools: { denied: ["tool__ad?"] } });
    await new Promise(setImmediate);
    expect(await filtered(qm)).toHaveLength(1);

    qm.unregister("add");
    await new Promise(setImmediate);
    qm.register(add);
    await vi.waitFor(async () => expect(await filtered(qm)).toHaveLength(2));
  });
});

describe("the facts of an action", () => {
  const caller = { actor: "triage" };
  const createSpecialist = async () => {
    const actors = [
      { name: "triage", tools: ["search"] },
      { name: "default", tools: ["*"] },
    ];
    const qm = await createQm({ policy: { actors, worlds: [{ name: "library" }], world: "library" } });
    qm.register({
      ...add,
      name: "search",
      scope: "specialist",
      justification: "Only triage reads this mailbox.",
      routing: "bypass",
      bypassRouting: { reason: "It lives inside the actor's connection." },
    });
    return qm;
  };

  test("have the reasons of a specialist that is not routed, in describe and explain", async () => {
    const qm = await createSpecialist();
    const reason = "It lives inside the actor's connection.";
    const justification = "Only triage reads this mailbox.";

    expect(qm.describe("tool__search", caller).metadata).toMatchObject({ justification, bypass_reason: reason });
    expect(qm.explain("tool__search", caller)).toMatchObject({ justification, bypassReason: reason });
    const surface = await qm.surface(caller);
    const answer = await surface.call("describe_action", { action_name: "tool__search" });
    expect(answer.data).toMatchObject({ metadata: { justification, bypass_reason: reason } });
  });

  test("have its source and type, but not in the lists of a model", async () => {
    const qm = await createSpecialist();
    const doc = defineAction("doc", {
      entry: "open",
      description: "Open a document.",
      effect: "read",
      input: z.object({ id: z.string() }),
      run: () => 1,
    });
    const paper = { entry: "paper", description: "A paper.", target: doc.name, transform: { set: { id: "$entry" } } };
    const resource = defineResource("page", { ...paper, world: "library" });
    qm.catalog.provide({ category: "doc", capability: "test", list: () => [doc] });
    qm.catalog.provide({ category: "page", capability: "test", list: () => [resource] });

    const facts = new Map(qm.inventory().map(({ name, source, type, site }) => [String(name), { source, type, site }]));
    expect(facts.get("tool__search")).toEqual({
      source: "code",
      type: "operation",
      site: expect.stringMatching(/invoke\.test\.ts:\d+$/),
    });
    expect(facts.get("doc__open")).toMatchObject({ source: "core", type: "operation", site: undefined });
    expect(facts.get("page__paper")).toMatchObject({ source: "library", type: "resource" });
    expect(qm.describe("page__paper").metadata).toMatchObject({ source: "library", type: "resource" });
    expect(qm.describe("tool__search", caller).metadata).not.toHaveProperty("site");
    for (const { items } of [qm.list(), qm.list({ category: ["doc"] })])
      for (const item of items) expect(item).not.toHaveProperty("source");
  });

  test("name the required arguments of a skill in every list", async () => {
    const qm = await createSpecialist();
    const skill = defineAction("skill", {
      entry: "summarize",
      description: "Summarize a text.",
      effect: "read",
      source: "configured",
      type: "llm",
      input: z.object({ text: z.string(), words: z.int().optional() }),
      run: () => 1,
    });
    qm.catalog.provide({ category: "skill", capability: "test", list: () => [skill] });

    const origin = { source: "configured", type: "llm", schema_hint: "(text: string, words?: integer)" };
    expect(qm.list().items.find((item) => item.qualified_name === "skill__summarize")).toEqual({
      qualified_name: "skill__summarize",
      schema_hint: "(text: string, +1)",
      short_description: "Summarize a text.",
    });
    expect(qm.inventory().find(({ name }) => name === "skill__summarize")).toMatchObject(origin);
    expect(qm.describe("skill__summarize").metadata).toMatchObject(origin);
  });
});

test("closing cancels running calls and records their end", async () => {
  const folder = await mkdtemp(join(tmpdir(), "qm-close-"));
  const store = join(folder, "qm.db");
  const qm = await createQuartermaster({ store });
  qm.register({ ...add, handler: () => new Promise(() => {}) });
  const call = qm.invoke("tool__add", { a: 1 });
  await new Promise(setImmediate);

  await qm.close();

  expect(await call).toMatchObject({ status: "failed", error: { code: "cancelled" } });
  const again = await createQm({ store });
  expect(await types(again)).toEqual(["call.received", "call.decided", "call.ended"]);
  await rm(folder, { recursive: true });
});

test("rejects two providers for the same category", async () => {
  const twice = { category: "doc", capability: "test", list: () => [] };

  await expect(createQuartermaster({ providers: [twice, twice] })).rejects.toThrow(
    /two providers claim the category doc/,
  );
});

test("a rule on the turn hides actions in that turn only, in any order", async () => {
  const rules = [{ rule: "ctx.turn == 'a'", effect: "hide" }] as const;
  for (const order of [
    ["a", "b"],
    ["b", "a"],
  ]) {
    const qm = await createQm({ policy: { rules } });
    qm.register(add);
    for (const turn of order) {
      expect(qm.list({}, { turn }).total).toBe(turn === "a" ? 0 : 1);
      expect(await qm.invoke("tool__add", { a: 1 }, { caller: { turn } })).toMatchObject(
        turn === "a" ? { error: { code: "unknown_action" } } : { status: "done" },
      );
    }
  }
});

describe("a storage failure", () => {
  /** A quartermaster with a store that the test can break. */
  async function createBreakable() {
    const folder = await mkdtemp(join(tmpdir(), "qm-frail-"));
    const store = join(folder, "qm.db");
    const problems: string[] = [];
    const qm = await createQm({
      store,
      onProblem: (problem) => problems.push(problem),
      policy: { budgets: { session: { ms: 1_000_000 } } },
    });
    const breakTable = async (table: string) => {
      const { DatabaseSync } = await import("@photostructure/sqlite");
      const db = new DatabaseSync(store);
      // The system may have a transaction open: it cleans up after its start.
      await vi.waitFor(() => db.exec(`alter table ${table} rename to ${table}_gone`), { timeout: 10_000, interval: 5 });
      db.close();
    };
    return { qm, problems, breakTable };
  }

  test("after the handler ran is reported as unrecorded, with the hint not to repeat the call", async () => {
    const { qm, breakTable } = await createBreakable();
    const ran = vi.fn();
    qm.register({
      ...add,
      effect: "write",
      handler: async () => {
        ran();
        await breakTable("events");
      },
    });

    const outcome = await qm.invoke("tool__add", { a: 1 });

    expect(ran).toHaveBeenCalledOnce();
    expect(outcome).toMatchObject({
      status: "failed",
      error: { code: "unrecorded", hint: expect.stringContaining("Do not repeat") },
    });
  });

  test("while counting usage is reported to the host and keeps the result", async () => {
    const { qm, problems, breakTable } = await createBreakable();
    qm.register({
      ...add,
      handler: async () => {
        await breakTable("usage");
        return 7;
      },
    });

    expect(await qm.invoke("tool__add", { a: 1 })).toMatchObject({ status: "done", data: 7 });
    expect(problems).toEqual([expect.stringContaining("its usage could not be counted")]);
  });

  test("before the decision is recorded stops a write", async () => {
    const { qm, breakTable } = await createBreakable();
    const handler = vi.fn();
    qm.register({ ...add, effect: "write", handler });
    await qm.ledger.flush();
    await breakTable("events");

    expect(await qm.invoke("tool__add", { a: 1 })).toMatchObject({
      status: "failed",
      error: { code: "ledger_failed" },
    });
    expect(handler).not.toHaveBeenCalled();
  });
});

describe("arguments", () => {
  test("are unwrapped from an extra object, even if the schema would accept it", async () => {
    const qm = await createQm();
    qm.register({
      ...add,
      inputSchema: { type: "object", properties: { path: { type: "string" } } },
      handler: (args) => args,
    });

    expect(await qm.invoke("tool__add", { args: { path: "src" } })).toMatchObject({ data: { path: "src" } });
    expect(await qm.invoke("tool__add", { Path: "src" })).toMatchObject({ data: { path: "src" } });
    expect(await qm.invoke("tool__add", { unknown: 1 })).toMatchObject({ data: { unknown: 1 } });
  });

  test("rejected only by the tool's own schema are answered with the schema and an example", async () => {
    const qm = await createQm();
    qm.register({
      ...add,
      inputSchema: z.object({ a: z.number() }).refine(({ a }) => a !== 3, "not three"),
      handler: () => 1,
    });

    expect(await qm.invoke("tool__add", { a: 3 })).toMatchObject({
      error: {
        code: "invalid_arguments",
        problems: [{ message: "not three" }],
        example: { a: 1 },
        input_schema: { type: "object" },
      },
    });
  });

  test("rejected by a very large schema are still answered with an example and a hint", async () => {
    const qm = await createQm();
    const properties = Object.fromEntries(
      Array.from({ length: 60 }, (_, index) => [
        `field_number_${index}`,
        { type: "string", description: "x".repeat(100) },
      ]),
    );
    qm.register({
      ...add,
      inputSchema: { type: "object", properties, required: ["field_number_0"] } as never,
      handler: () => 1,
    });

    const { value } = await qm.invoke("tool__add", {});

    expect(JSON.parse(value)).toMatchObject({
      code: "invalid_arguments",
      example: { field_number_0: "text" },
      hint: expect.any(String),
    });
  });
});

describe("concurrency and timeouts", () => {
  test("a nested call takes no slot of its own, so calls cannot deadlock", async () => {
    const qm = await createQm({ limits: { concurrency: 2, timeoutMs: 5_000 } });
    qm.register({ ...add, name: "child", handler: () => 1, concurrency: 1 });
    qm.register({
      ...add,
      name: "parent",
      handler: async (_args, { invoke }) => (await invoke("tool__child", { a: 1 })).status,
    });

    const outcomes = await Promise.all(Array.from({ length: 6 }, () => qm.invoke("tool__parent", { a: 1 })));

    expect(outcomes.map((outcome) => outcome.status === "done" && outcome.data)).toEqual(Array(6).fill("done"));
    const received = await qm.ledger.read({ type: "call.received" });
    const parents = received.flatMap(({ data }) => (data as { parent?: string }).parent ?? []);
    expect(parents.toSorted()).toEqual(outcomes.map(({ callId }) => callId).toSorted());
  });

  test("a nested call has the same caller and is subject to policy, budgets and timeouts", async () => {
    const qm = await createQm({ policy: { tools: { denied: ["hidden"] }, budgets: { session: { calls: 2 } } } });
    qm.register({ ...add, name: "hidden", handler: () => 1 });
    qm.register({ ...add, name: "slow", timeout: 20, handler: () => new Promise(() => {}) });
    qm.register({
      ...add,
      name: "parent",
      handler: async (_args, { invoke }) => [
        await invoke("tool__hidden"),
        await invoke("tool__slow", { a: 1 }),
        await invoke("tool__slow", { a: 1 }),
      ],
    });

    const outcome = await qm.invoke("tool__parent", { a: 1 }, { caller: { session: "s" } });

    expect(outcome).toMatchObject({
      data: [
        { error: { code: "unknown_action" } },
        { error: { code: "timed_out" } },
        { error: { code: "budget_exceeded" } },
      ],
    });
    expect((await qm.ledger.read({ session: "s", type: "call.received" })).length).toBe(4);
  });

  test("resources share the slots of their operation, and a new limit applies at once", async () => {
    let running = 0;
    let most = 0;
    const run = async () => {
      most = Math.max(most, ++running);
      await new Promise(setImmediate);
      running--;
    };
    const operation = (concurrency: number) =>
      defineAction("op", {
        entry: "go",
        description: "Go.",
        effect: "read",
        input: z.object({ of: z.string() }),
        run,
        concurrency,
      });
    const resources = ["a", "b", "c"].map((entry) =>
      defineResource("res", {
        entry,
        description: "Res.",
        target: actionName("op", "go"),
        transform: { set: { of: "$entry" } },
      }),
    );
    const qm = await createQm({
      providers: [
        { category: "op", capability: "go", list: () => [operation(1)] },
        { category: "res", capability: "res", list: () => resources },
      ],
    });
    const callAll = () =>
      Promise.all(
        ["res__a", "res__b", "res__c", "op__go"].map((name) => qm.invoke(name, name === "op__go" ? { of: "x" } : {})),
      );

    await callAll();
    expect(most).toBe(1);
    qm.catalog.provide({ category: "op", capability: "go", list: () => [operation(3)] });
    await callAll();
    expect(most).toBe(3);
  });

  test("closing cancels calls that have not started", async () => {
    const qm = await createQuartermaster();
    const handler = vi.fn();
    qm.register({ ...add, handler });

    const call = qm.invoke("tool__add", { a: 1 });
    await qm.close();

    expect(await call).toMatchObject({ status: "failed", error: { code: "cancelled" } });
    expect(handler).not.toHaveBeenCalled();
  });

  test("a timeout longer than a timer can hold does not fire at once", async () => {
    const qm = await createQm({ limits: { timeoutMs: 9_000_000_000 } });
    qm.register({
      ...add,
      timeout: 3_000_000_000,
      handler: () => new Promise((resolve) => setTimeout(resolve, 20, 1)),
    });

    expect(await qm.invoke("tool__add", { a: 1 })).toMatchObject({ status: "done" });
  });
});

describe("views", () => {
  test("are computed per caller under a visibility policy", async () => {
    const flags = new Set(["acme"]);
    const qm = await createQm({
      policy: { visibility: { visibleTools: (actions, { tenant = "" }) => (flags.has(tenant) ? actions : []) } },
    });
    qm.register(add);

    expect(qm.names({ tenant: "acme" })).toHaveLength(1);
    expect(qm.names({ tenant: "other" })).toHaveLength(0);
    flags.clear();
    expect(qm.names({ tenant: "acme" })).toHaveLength(0);
  });

  test("differ by user and session under a visibility policy", async () => {
    const isOn = ({ user, session }: Caller) => user?.tier === "beta" || session === "trial";
    const qm = await createQm({
      policy: { visibility: { visibleTools: (actions, caller) => (isOn(caller) ? actions : []) } },
    });
    qm.register(add);

    expect(qm.names({ user: { id: "u", tier: "beta" } })).toHaveLength(1);
    expect(qm.names({ session: "trial" })).toHaveLength(1);
    expect(qm.names({ user: { id: "u", tier: "free" }, session: "s" })).toHaveLength(0);
  });

  test("follow a gate as it opens and closes", async () => {
    let shut: string | undefined = "no sandbox";
    const qm = await createQm({ policy: { gates: [{ name: "sandbox", guards: "tool__*", shut: () => shut }] } });
    qm.register(add);

    expect(qm.names()).toHaveLength(0);
    shut = undefined;
    expect(qm.names()).toHaveLength(1);
    shut = "broken";
    expect(qm.names()).toHaveLength(0);
  });

  test("notify listeners when they may have changed", async () => {
    const qm = await createQm();
    const changed = vi.fn();
    const stop = qm.onChange(changed);

    qm.register(add);
    qm.usePolicy({ tools: { denied: ["add"] } });
    stop();
    qm.unregister("add");

    expect(changed).toHaveBeenCalledTimes(2);
  });
});

test("the ledger records the caller, cuts long results and records discovery calls", async () => {
  const qm = await createQm();
  qm.register({ ...add, handler: () => "x".repeat(50_000) });
  const caller = { user: { id: "u1", tier: "gold" }, person: "p1", session: "s" };
  const surface = await qm.surface(caller);

  await qm.invoke("tool__add", { a: 1 }, { caller });
  await surface.call("list_actions", { filter: "x" });
  await surface.call("invoke_action", "{broken");
  await qm.ledger.flush();

  const events = await qm.ledger.read({ session: "s" });
  for (const event of events) expect(event).toMatchObject({ user: "u1", person: "p1" });
  expect(await qm.ledger.read({ user: "u1" })).toHaveLength(events.length);
  const ended = events.find(({ type }) => type === "call.ended");
  expect(ended?.data).toMatchObject({
    bytes: 50_002,
    result: { cut: expect.any(String) },
    resultHash: expect.any(String),
  });
  expect(JSON.stringify(ended).length).toBeLessThan(10_000);
  expect(events.filter(({ type }) => type === "surface.called").map(({ data }) => data)).toMatchObject([
    { tool: "list_actions", ok: true },
    { tool: "invoke_action", ok: false, code: "invalid_arguments" },
  ]);
});

test("a time budget refuses calls once it is used up", async () => {
  const qm = await createQm({ policy: { budgets: { session: { ms: 5 } } } });
  qm.register({ ...add, handler: () => new Promise((resolve) => setTimeout(resolve, 30, 1)) });

  expect(await qm.invoke("tool__add", { a: 1 })).toMatchObject({ status: "done" });
  expect(await qm.invoke("tool__add", { a: 1 })).toMatchObject({
    status: "refused",
    error: { code: "budget_exceeded" },
  });
});

test("a detailed page has a maximum length, and the next page continues where it ended", async () => {
  const qm = await createQm();
  for (let index = 0; index < 20; index++) {
    qm.register({ ...add, name: `t${index}`, description: `${"Long. ".repeat(300)}`, handler: () => index });
  }

  const seen: string[] = [];
  for (let offset: number | undefined = 0; offset !== undefined; ) {
    const page = qm.list({ category: ["tool"], offset, limit: 50 });
    expect(JSON.stringify(page).length).toBeLessThan(20_000);
    seen.push(...page.items.map(({ qualified_name }) => qualified_name));
    offset = page.next_offset;
  }
  expect(seen).toEqual(qm.names());
});

describe("invalid options are rejected", () => {
  test.each<[string, unknown, RegExp]>([
    ["a misspelt option", { polcy: {} }, /options\.polcy: unknown option; did you mean policy\?/],
    ["a policy in the file's format", { policy: { denied: ["x"] } }, /options\.policy\.denied: unknown option/],
    [
      "a misspelt denied",
      { policy: { tools: { denyed: [] } } },
      /tools\.denyed: unknown option; did you mean denied\?/,
    ],
    ["a misspelt budget", { policy: { budgets: { sesion: { calls: 1 } } } }, /did you mean session\?/],
    ["a misspelt limit", { policy: { budgets: { session: { call: 5 } } } }, /did you mean calls\?/],
    [
      "an actor with an unknown model",
      { policy: { actors: [{ name: "a", tools: [], model: "fsat" }] }, models: { fast: { name: "x", generate() {} } } },
      /actors: a\.model: no model is called "fsat"; did you mean fast\?/,
    ],
    ["an unknown effect", { policy: { rules: [{ rule: "true", effect: "block" }] } }, /rules\.0\.effect/],
    ["actors as a mapping", { policy: { actors: { default: { tools: [] } } } }, /actors: .*array/],
    ["an invalid provider", { providers: [{}] }, /providers\.0\.category/],
    ["an unknown surface", { surface: { kind: "flatt" } }, /surface\.kind/],
    ["a number given as text", { limits: { timeoutMs: "5" } }, /limits\.timeoutMs/],
    ["options that are not an object", "x", /options: .*object/],
  ])("%s", async (_name, options, message) => {
    await expect(createQuartermaster(options as QuartermasterOptions)).rejects.toMatchObject({
      code: "invalid_config",
      message: expect.stringMatching(message),
    });
  });

  test.each<[string, unknown]>([
    ["a caller given as a name", { caller: "bob" }],
    ["an actor outside the caller", { actor: "bob" }],
    ["a caller field in the wrong case", { caller: { Actor: "bob" } }],
    ["a null actor", { caller: { actor: null } }],
    ["a numeric session", { caller: { session: 5 } }],
    ["an invalid signal", { signal: "x" }],
    ["a null caller", { caller: null }],
    ["null options", null],
  ])("%s: invoke does not run the handler", async (_name, options) => {
    const qm = await createQm();
    const handler = vi.fn();
    qm.register({ ...add, handler });

    expect(await qm.invoke("tool__add", { a: 1 }, options as never)).toMatchObject({
      status: "failed",
      error: { code: "invalid_config" },
    });
    expect(handler).not.toHaveBeenCalled();
  });

  test("by list, surface and usePolicy", async () => {
    const qm = await createQm();

    expect(() => qm.list({}, "bob" as never)).toThrow(/caller: /);
    expect(() => qm.list({ category: "file" } as never)).toThrow(/query\.category/);
    await expect(qm.surface({}, "flatt" as never)).rejects.toThrow(/surface\.kind/);
    expect(() => qm.usePolicy({ tool: {} } as never)).toThrow(/did you mean tools\?/);
  });
});

test("warns about policy patterns that match no action", async () => {
  const qm = await createQm({
    policy: {
      tools: { denied: ["tool__ad", "file__*"], allowed: ["*", "ad", "tag:sum"] },
      actors: [{ name: "default", tools: ["tol__*", "*", "tag:sun"] }],
    },
  });
  qm.register({ ...add, tags: ["sum"] });

  expect(qm.policyWarnings()).toEqual([
    'policy.denied lists "tool__ad", which no action fits; did you mean tool__add?',
    'policy.denied lists "file__*", which no action fits',
    'policy.allowed lists "ad", which no action fits; did you mean add?',
    'actor default lists "tol__*", which no action fits',
    'actor default lists "tag:sun", which no action fits; did you mean tag:sum?',
  ]);
});

test("describe reports a rule that always requires approval", async () => {
  const qm = await createQm({ policy: { rules: [{ rule: "true", effect: "ask" }] } });
  qm.register(add);

  expect(qm.describe("tool__add").metadata.approval).toBe("always");
});

test.each([
  ["a function", () => add],
  ["a symbol", Symbol("x")],
  ["a Map", new Map()],
  ["an Error", new Error("x")],
])("rejects a result that is %s", async (_name, result) => {
  const qm = await createQm();
  qm.register({ ...add, handler: () => result });

  expect(await qm.invoke("tool__add", { a: 1 })).toMatchObject({ status: "failed", error: { code: "invalid_output" } });
});

test("a surface answers with an error after close", async () => {
  const qm = await createQuartermaster();
  qm.register(add);
  const surface = await qm.surface();
  await qm.close();

  for (const [tool, args] of [
    ["list_actions", {}],
    ["describe_action", { action_name: "tool__add" }],
    ["invoke_action", "{broken"],
    ["tool__add", { a: 1 }],
  ] as const) {
    expect(await surface.call(tool, args)).toMatchObject({ ok: false, data: { code: "ledger_failed" } });
  }
});
