import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { z } from "zod";
import {
  actionName,
  createQuartermaster,
  defineAction,
  defineResource,
  type Quartermaster,
  type QuartermasterOptions,
} from "../src/index.ts";

const open: Quartermaster[] = [];

async function counter(options: QuartermasterOptions = {}): Promise<Quartermaster> {
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

describe("a call that is done", () => {
  test("answers whole data, a bounded value, and is in the ledger", async () => {
    const qm = await counter();
    qm.register({ ...add, handler: () => ({ text: "x".repeat(10_000) }) });

    const outcome = await qm.invoke("tool__add", { a: 1 });

    expect(outcome).toMatchObject({ status: "done", action: "tool__add", data: { text: "x".repeat(10_000) } });
    expect(outcome.value.length).toBeLessThanOrEqual(4096);
    expect(outcome.value).toMatch(/\[cut: 10011 characters in all\]$/);
    expect(await types(qm)).toEqual(["call.received", "call.decided", "call.ended"]);
  });

  test("runs with the schema's defaults and zod's own transforms", async () => {
    const qm = await counter();
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

  test("gets who asks, and cannot be reached by what the caller does later", async () => {
    const qm = await counter();
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
    const qm = await counter();
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

describe("a call that does not run", () => {
  const spied = async (options: QuartermasterOptions, more: object = {}) => {
    const handler = vi.fn(() => 1);
    const qm = await counter(options);
    qm.register({ ...add, handler, ...more });
    return { qm, handler };
  };

  test.each<[string, QuartermasterOptions, object, unknown, object]>([
    [
      "arguments that do not fit",
      {},
      {},
      {},
      { status: "failed", error: { code: "invalid_arguments", example: { a: 1 } } },
    ],
    [
      "denied by a rule",
      { policy: { rules: [{ rule: "true", effect: "deny", reason: "Not on Sundays." }] } },
      {},
      { a: 1 },
      { status: "refused", reason: "Not on Sundays.", error: { code: "denied" } },
    ],
    [
      "a rule that asks",
      { policy: { rules: [{ rule: "args.a > 0", effect: "ask" }] } },
      {},
      { a: 1 },
      { status: "refused", error: { code: "approval_required" } },
    ],
    [
      "an action that asks",
      {},
      { requiresApproval: true },
      { a: 1 },
      { status: "refused", error: { code: "approval_required" } },
    ],
    [
      "hidden",
      { policy: { tools: { denied: ["add"] } } },
      {},
      { a: 1 },
      { status: "failed", error: { code: "unknown_action" } },
    ],
    [
      "a schema that turns out unusable",
      {},
      { inputSchema: { type: "object", properties: { a: { $ref: "#nowhere" } } } },
      { a: 1 },
      { status: "failed", error: { code: "unsafe_schema" } },
    ],
  ])("%s", async (_name, options, more, args, expected) => {
    const { qm, handler } = await spied(options, more);

    expect(await qm.invoke("tool__add", args)).toMatchObject(expected);
    expect(handler).not.toHaveBeenCalled();
  });

  test("an actor nobody configured", async () => {
    const { qm, handler } = await spied({});

    expect(await qm.invoke("tool__add", { a: 1 }, { caller: { actor: "defualt" } })).toMatchObject({
      status: "refused",
      error: { code: "unknown_actor", hint: "Did you mean default?" },
    });
    expect(handler).not.toHaveBeenCalled();
  });

  test("cancelled before it began", async () => {
    const { qm, handler } = await spied({});

    expect(await qm.invoke("tool__add", { a: 1 }, { signal: AbortSignal.abort() })).toMatchObject({
      status: "failed",
      error: { code: "cancelled" },
    });
    expect(handler).not.toHaveBeenCalled();
  });

  test("a ledger that cannot be written stops what would change something", async () => {
    const { qm, handler } = await spied({}, { effect: "write" });
    await qm.close();
    open.length = 0;

    const outcome = await qm.invoke("tool__add", { a: 1 });

    expect(outcome.status).toBe("failed");
    expect(handler).not.toHaveBeenCalled();
  });
});

describe("a call that goes wrong", () => {
  test.each<[string, () => unknown, object]>([
    [
      "throws",
      () => {
        throw new Error("no disk");
      },
      { code: "action_failed", error: "tool__add failed: no disk" },
    ],
    [
      "answers a cycle",
      () => {
        const a: unknown[] = [];
        a.push(a);
        return a;
      },
      { code: "invalid_output" },
    ],
    ["answers a BigInt", () => 1n, { code: "invalid_output" }],
    [
      "answers another form than it declares",
      () => ({ sum: "3" }),
      { code: "invalid_output", problems: [{ path: "/sum", message: "must be number" }] },
    ],
  ])("%s", async (_name, handler, error) => {
    const qm = await counter();
    qm.register({ ...add, handler, outputSchema: { type: "object", properties: { sum: { type: "number" } } } });

    expect(await qm.invoke("tool__add", { a: 1 })).toMatchObject({ status: "failed", action: "tool__add", error });
    expect(await types(qm)).toEqual(["call.received", "call.decided", "call.ended"]);
  });

  test("keeps secrets out of the ledger, wherever they stand", async () => {
    const secret = "hunter2-very-secret";
    const qm = await counter({ redact: { secrets: () => [secret] } });
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
  test("hold for parallel calls as for one after another", async () => {
    const qm = await counter({ policy: { budgets: { session: { calls: 5 } } } });
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

  test("are kept with the store, across processes and restarts", async () => {
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

  test("of bytes and of time end when they are used up", async () => {
    const qm = await counter({ policy: { budgets: { turn: { bytes: 50 } } } });
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

  test("runs its operation with the part that is already given", async () => {
    const qm = await counter({ providers });

    expect(await qm.invoke("rag_corpus__meetings", { query: "Q3 roadmap" })).toMatchObject({
      data: { sources: ["meetings"], query: "Q3 roadmap" },
    });
    expect(await qm.invoke("skill__report", { topic: "x" })).toMatchObject({
      data: { name: "report", input: { topic: "x" } },
    });
  });

  test("does not let the caller say the part that is given", async () => {
    const qm = await counter({ providers });

    expect(await qm.invoke("rag_corpus__meetings", { query: "q", sources: ["secret"] })).toMatchObject({
      status: "failed",
      error: { code: "invalid_arguments" },
    });
  });

  test("is hidden and refused where its operation is", async () => {
    const qm = await counter({ providers, policy: { tools: { denied: ["rag_operation__*"] } } });

    expect(qm.list({ filter: "meetings" }).total).toBe(0);
    expect(await qm.invoke("rag_corpus__meetings", { query: "q" })).toMatchObject({
      error: { code: "unknown_action" },
    });
  });

  test("is described with what it runs", async () => {
    const qm = await counter({ providers });

    expect(qm.describe("rag_corpus__meetings").metadata).toMatchObject({
      target_tool_name: "rag_operation__recall",
      canonical_default: "runs rag_operation__recall",
      purity: "read",
    });
  });
});

test("a policy takes effect for the next decision, and a wrong one changes nothing", async () => {
  const qm = await counter();
  qm.register(add);

  qm.usePolicy({ tools: { denied: ["add"] } });
  expect(qm.list().total).toBe(0);
  expect(() => qm.usePolicy({ rules: [{ rule: "(", effect: "hide" }] })).toThrow();
  expect(() => qm.usePolicy({ actors: [{ name: "default", tools: ["nonsense"] }] })).toThrow(/does not exist/);
  expect(qm.list().total).toBe(0);
  qm.usePolicy({});
  expect(qm.list().total).toBe(1);
});

test("an actor that lists what does not exist does not start", async () => {
  const qm = await counter({ policy: { actors: [{ name: "triage", tools: ["task_get"] }] } });

  await expect(qm.surface({ actor: "triage" })).rejects.toThrow(/actor triage lists "task_get", which does not exist/);
});

test("closing ends what runs, writes it down, and leaves nothing open", async () => {
  const folder = await mkdtemp(join(tmpdir(), "qm-close-"));
  const store = join(folder, "qm.db");
  const qm = await createQuartermaster({ store });
  qm.register({ ...add, handler: () => new Promise(() => {}) });
  const call = qm.invoke("tool__add", { a: 1 });
  await new Promise(setImmediate);

  await qm.close();

  expect(await call).toMatchObject({ status: "failed", error: { code: "cancelled" } });
  const again = await counter({ store });
  expect(await types(again)).toEqual(["call.received", "call.decided", "call.ended"]);
  await rm(folder, { recursive: true });
});

test("a quartermaster that cannot be made leaves no store open", async () => {
  const twice = { category: "doc", capability: "test", list: () => [] };

  await expect(createQuartermaster({ providers: [twice, twice] })).rejects.toThrow(
    /two providers claim the category doc/,
  );
});

test("a rule about the turn hides in that turn and in no other, in whatever order they come", async () => {
  const rules = [{ rule: "ctx.turn == 'a'", effect: "hide" }] as const;
  for (const order of [
    ["a", "b"],
    ["b", "a"],
  ]) {
    const qm = await counter({ policy: { rules } });
    qm.register(add);
    for (const turn of order) {
      expect(qm.list({}, { turn }).total).toBe(turn === "a" ? 0 : 1);
      expect(await qm.invoke("tool__add", { a: 1 }, { caller: { turn } })).toMatchObject(
        turn === "a" ? { error: { code: "unknown_action" } } : { status: "done" },
      );
    }
  }
});
