import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { systemRuntime } from "../src/app/system-runtime.ts";
import type { Approver } from "../src/approval/approval.ts";
import type { Dialogue } from "../src/core/caller.ts";
import { QmError } from "../src/core/errors.ts";
import { recordCase, runEvals } from "../src/evals/exports.ts";
import {
  annotate,
  createQuartermaster,
  defineAction,
  type JsonObject,
  type Outcome,
  type Provider,
  type Quartermaster,
  type QuartermasterOptions,
} from "../src/index.ts";

const ann: Approver = { id: "ann", roles: ["approver", "admin"], via: "test" };
const approved = { decision: "approved" } as const;

const open: Quartermaster[] = [];
const folders: string[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((each) => each.close()));
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

function newStore(): string {
  const folder = mkdtempSync(join(tmpdir(), "qm-safety-"));
  folders.push(folder);
  return join(folder, "store.db");
}

async function counter(options: QuartermasterOptions = {}): Promise<Quartermaster> {
  const qm = await createQuartermaster(options);
  open.push(qm);
  return qm;
}

const ran: string[] = [];
afterEach(() => void ran.splice(0));

/** A tool that records its runs. */
function tool(name: string, more: object = {}) {
  return {
    name,
    description: `Do ${name}.`,
    inputSchema: { type: "object", properties: { sum: { type: "number" }, to: { type: "string" } } },
    scope: "generalist",
    effect: "external",
    requiresApproval: true,
    handler: (args: unknown) => {
      ran.push(`${name} ${JSON.stringify(args)}`);
      return { done: name };
    },
    ...more,
  } as Parameters<Quartermaster["register"]>[0];
}

function idOf(outcome: Outcome): string {
  if (outcome.status !== "waiting") expect.fail(`it is ${outcome.status}: ${outcome.value}`);
  return outcome.approval.id;
}

const typesOf = async (qm: Quartermaster, type: string) => (await qm.ledger.read({ type })).map(({ data }) => data);

describe("rights that the caller loses while the call waits", () => {
  test.each<readonly [string, (qm: Quartermaster) => void]>([
    ["denied by a rule", (qm) => qm.usePolicy({ rules: [{ rule: "tool.name == 'tool__pay'", effect: "deny" }] })],
    ["hidden", (qm) => qm.usePolicy({ tools: { denied: ["tool__pay"] } })],
    ["only another actor has it", (qm) => qm.usePolicy({ actors: [{ name: "other", tools: ["*"] }] })],
    ["unregistered", (qm) => void qm.unregister("pay")],
    ["under another policy", (qm) => qm.usePolicy({ rules: [{ rule: "false", effect: "hide" }] })],
  ])("%s: the approved call does not run", async (_, change) => {
    const qm = await counter();
    qm.register(tool("pay"));

    const outcome = await qm.invoke(
      "tool__pay",
      { sum: 1 },
      {
        ask: async () => {
          change(qm);
          return { decision: "approved", by: "ann", roles: ["approver"] };
        },
      },
    );

    expect(outcome.status).not.toBe("done");
    expect(ran).toEqual([]);
    expect(await qm.approvals.run()).toBe(0);
    expect((await qm.approvals.list()).map(({ state }) => state)).toEqual(["expired"]);
  });

  test("a higher level is required: the approved call does not run", async () => {
    const qm = await counter({ approvals: { worker: false } });
    let level = "user";
    qm.register(tool("pay", { requiresApproval: () => level }));
    const id = idOf(await qm.invoke("tool__pay", { sum: 1 }));
    await qm.approvals.answer(id, approved, ann);

    level = "admin";
    await qm.approvals.run(id);

    expect(ran).toEqual([]);
    expect((await qm.approvals.get(id)).state).toBe("expired");
  });
});

describe("an approval request", () => {
  test("has at least the level of a rule that fails", async () => {
    const qm = await counter();
    qm.register(
      tool("pay", { requiresApproval: { autoApproveIf: "args.sum < 100.0", level: "admin", expiresIn: "5m" } }),
    );

    const outcome = await qm.invoke("tool__pay", { to: "eve" });

    expect(outcome).toMatchObject({ status: "waiting", approval: { level: "admin" } });
    const { requestedAt, expiresAt } = await qm.approvals.get(idOf(outcome));
    expect(Date.parse(expiresAt) - Date.parse(requestedAt)).toBe(5 * 60_000);
  });

  test("needs an administrator when two levels cannot be compared", async () => {
    const rules = [
      { rule: "true", effect: "ask", level: "legal" },
      { rule: "true", effect: "ask", level: "money" },
    ] as const;
    const qm = await counter({ policy: { rules } });
    qm.register(tool("pay"));

    expect(await qm.invoke("tool__pay")).toMatchObject({ approval: { level: "admin" } });
  });

  test("is shown to the person at the client only if it fits completely", async () => {
    const qm = await counter();
    qm.register(tool("pay"));
    const asked: string[] = [];
    const dialogue: Dialogue = {
      owner: "client",
      capabilities: { elicitation: {} },
      progress: () => {},
      log: () => {},
      ask: async ({ approve }) => {
        asked.push(String(approve?.params.message));
        return { approve: { action: "accept", content: { decision: "approve" } } };
      },
    };

    const short = await qm.invoke("tool__pay", { to: "bob", sum: 1 }, { dialogue });
    const long = await qm.invoke("tool__pay", { to: "x".repeat(5_000), sum: 1_000_000 }, { dialogue });

    expect([short.status, long.status]).toEqual(["done", "waiting"]);
    expect(asked).toHaveLength(1);
    expect(asked[0]).toContain('"sum":1');
  });

  test("is the same in the next turn, and a new one for another caller", async () => {
    const qm = await counter();
    qm.register(tool("pay"));
    const idFor = async (caller: object) => idOf(await qm.invoke("tool__pay", { sum: 1 }, { caller }));

    const first = await idFor({ turn: "1" });

    expect(await idFor({ turn: "2" })).toBe(first);
    for (const other of [{ session: "s" }, { tenant: "t" }, { user: { id: "u" } }, { person: "p" }]) {
      expect(await idFor(other)).not.toBe(first);
    }
  });

  test.each([
    [{ decision: "approve" }, ann],
    [{ decision: "done" }, ann],
    [{}, ann],
    [approved, { id: "ann", via: "test" }],
    [approved, { id: "", roles: [], via: "test" }],
    [{ ...approved, reason: 5 }, ann],
  ])("rejects the answer %j of %j", async (answer, approver) => {
    const qm = await counter();
    qm.register(tool("pay"));
    const id = idOf(await qm.invoke("tool__pay"));

    await expect(qm.approvals.answer(id, answer as never, approver as never)).rejects.toMatchObject({
      code: "invalid_arguments",
    });

    expect((await qm.approvals.get(id)).state).toBe("pending");
  });

  test("does not block closing, and stays pending afterwards", async () => {
    const store = newStore();
    const qm = await createQuartermaster({ store, approvals: { ask: () => new Promise(() => {}) } });
    qm.register(tool("pay"));
    const call = qm.invoke("tool__pay", { sum: 1 });
    await expect.poll(async () => (await qm.approvals.list()).length).toBe(1);

    await qm.close();

    expect((await call).status).toBe("waiting");
    const later = await counter({ store });
    expect((await later.approvals.list()).map(({ state }) => state)).toEqual(["pending"]);
  });

  test("expires, even if many others expire later", async () => {
    let offset = 0;
    const now = () => new Date(Date.now() + offset);
    const policy = { approvals: { maxOpen: 500, expiresIn: "30d" } } as const;
    const qm = await counter({ runtime: { ...systemRuntime, now }, policy, approvals: { worker: false } });
    qm.register(tool("pay"));
    qm.register(tool("soon", { requiresApproval: { autoApproveIf: "false", expiresIn: "1m" } }));
    for (let sum = 0; sum < 210; sum++) await qm.invoke("tool__pay", { sum });
    const id = idOf(await qm.invoke("tool__soon"));

    offset = 3_600_000;

    expect((await qm.approvals.list({ action: "tool__soon" })).map(({ state }) => state)).toEqual(["expired"]);
    expect(await qm.ledger.read({ type: "approval.expired" })).toHaveLength(1);
    expect((await qm.approvals.get(id)).answer).toMatchObject({ reason: "nobody answered in time" });
  });

  test("expires while a caller waits for it", async () => {
    const qm = await counter({ approvals: { ask: () => new Promise(() => {}) } });
    qm.register(tool("pay", { requiresApproval: { autoApproveIf: "false", expiresIn: "50ms" } }));

    expect(await qm.invoke("tool__pay")).toMatchObject({ status: "refused", error: { code: "approval_expired" } });
  });
});

describe("an approved call", () => {
  test("runs once, even if its route has retries", async () => {
    let tries = 0;
    const failing = () => {
      tries++;
      throw new QmError("server_failed", "not now");
    };
    const qm = await counter({ routing: [{ event: "tool_call:*", retry: { attempts: 3, backoffMs: 1 } }] });
    qm.register(tool("agreed", { idempotent: true, handler: failing }));
    qm.register(tool("plain", { idempotent: true, handler: failing, requiresApproval: false }));
    const id = idOf(await qm.invoke("tool__agreed"));
    await qm.approvals.answer(id, approved, ann);

    expect(await qm.approvals.outcome(id, { timeoutMs: 5_000 })).toMatchObject({ status: "failed" });
    expect(tries).toBe(1);
    expect((await qm.invoke("tool__plain")).status).toBe("failed");
    expect(tries).toBe(4);
  });

  test("is left to a process with the same policy for a while", async () => {
    const store = newStore();
    const here = await counter({ store, approvals: { worker: false } });
    const there = await counter({
      store,
      policy: { budgets: { session: { calls: 9 } } },
      approvals: { worker: false },
    });
    for (const qm of [here, there]) qm.register(tool("pay"));
    const id = idOf(await here.invoke("tool__pay", { sum: 1 }));
    await here.approvals.answer(id, approved, ann);

    expect(await there.approvals.run()).toBe(0);
    expect(await here.approvals.run()).toBe(1);
    expect(ran).toEqual(['pay {"sum":1}']);
  });

  test("runs among many calls of unknown actions", async () => {
    const store = newStore();
    const elsewhere = await counter({ store, approvals: { worker: false }, policy: { approvals: { maxOpen: 500 } } });
    for (const name of ["other", "known"]) elsewhere.register(tool(name));
    const ids: string[] = [];
    for (let sum = 0; sum < 120; sum++) ids.push(idOf(await elsewhere.invoke("tool__other", { sum })));
    ids.push(idOf(await elsewhere.invoke("tool__known")));
    for (const id of ids) await elsewhere.approvals.answer(id, approved, ann);
    const here = await counter({ store, approvals: { worker: false }, policy: { approvals: { maxOpen: 500 } } });
    here.register(tool("known"));

    expect(await here.approvals.run()).toBe(1);
    expect(ran).toEqual(["known {}"]);
  });

  test("waits without an end in the ledger while all concurrency slots are taken", async () => {
    const qm = await counter({ limits: { concurrency: 1, queue: 0 }, approvals: { worker: false } });
    let leave: (() => void) | undefined;
    qm.register(
      tool("block", { requiresApproval: false, handler: () => new Promise<void>((resolve) => (leave = resolve)) }),
    );
    qm.register(tool("pay"));
    const id = idOf(await qm.invoke("tool__pay", { sum: 1 }));
    await qm.approvals.answer(id, approved, ann);
    const blocking = qm.invoke("tool__block");
    await expect.poll(() => leave !== undefined).toBe(true);

    await qm.approvals.run();
    const { state, callId } = await qm.approvals.get(id);
    const ends = await qm.ledger.read({ callId, type: "call.ended" });
    leave?.();
    await blocking;

    expect({ state, ends: ends.length }).toEqual({ state: "approved", ends: 0 });
    expect((await qm.ledger.read({ callId, type: "call.suspended" })).length).toBe(2);
  });

  test("cannot be awaited by another tenant", async () => {
    const qm = await counter();
    qm.register(tool("pay", { handler: () => ({ secret: 42 }) }));
    const asked = await qm.invoke("tool__pay", { sum: 1 }, { caller: { tenant: "t1" } });
    const id = idOf(asked);
    await qm.approvals.answer(id, approved, ann);
    await expect.poll(async () => (await qm.approvals.get(id)).state).toBe("done");

    const spy = { caller: { actor: "default", session: "default", tenant: "t2" }, timeoutMs: 0 };
    await expect(qm.approvals.look(id, spy)).rejects.toMatchObject({ code: "not_found" });
    await expect(qm.approvals.outcome(id, spy)).rejects.toMatchObject({ code: "not_found" });
    // The attempts did not count as a delivery.
    const again = await qm.invoke("tool__pay", { sum: 1 }, { caller: { tenant: "t1" } });
    expect(again).toMatchObject({ status: "done", data: { secret: 42 }, ranAs: asked.callId });
  });
});

test("runs one of two identical calls, and records an end for both", async () => {
  const qm = await counter();
  qm.register(tool("pay"));

  const first = await qm.invoke("tool__pay", { sum: 1 });
  const second = await qm.invoke("tool__pay", { sum: 1 }, { ask: async () => ({ decision: "approved", by: "ann" }) });

  expect([first.status, second.status]).toEqual(["waiting", "done"]);
  expect(ran).toHaveLength(1);
  const ends = await qm.ledger.read({ type: "call.ended" });
  expect(ends.map(({ callId }) => callId).sort()).toEqual([first.callId, second.callId].sort());
  expect(ends.find(({ callId }) => callId === first.callId)?.data).toMatchObject({
    ranAs: second.callId,
    status: "done",
  });
});

test("records a call with an earlier outcome as an eval case that passes", async () => {
  const qm = await counter();
  qm.register(tool("pay"));
  const id = idOf(await qm.invoke("tool__pay", { sum: 1 }));
  await qm.approvals.answer(id, approved, ann);
  await qm.approvals.look(id, { timeoutMs: 5_000 });
  expect((await qm.invoke("tool__pay", { sum: 1 })).ranAs).toBeDefined();

  const { summary } = await qm.replay({ session: "local" });
  const made = await recordCase(qm.ledger, { session: "local" });
  const { cases } = await runEvals([made], undefined, { quartermaster: qm });

  expect(summary).toMatchObject({ calls: 2, same: 2 });
  expect(cases).toMatchObject([{ pass: true }]);
  expect(ran).toHaveLength(1);
});

describe("an annotated result", () => {
  const record = { name: "Ann", iban: "DE-SECRET-1", note: "for the model only" };
  const marks = { iban: { hidden: true }, note: { hidden: ["audit"] } } as const;

  async function answering(more: QuartermasterOptions = {}) {
    const qm = await counter(more);
    qm.register(tool("plain", { requiresApproval: false, handler: () => annotate(record, marks) }));
    qm.register(tool("asking", { handler: () => annotate(record, marks) }));
    return qm;
  }

  test("is complete for the program, and reduced for the model and the ledger", async () => {
    const qm = await answering();
    const surface = await qm.surface({ session: "chat" });

    const outcome = await qm.invoke("tool__plain");
    const answer = await surface.call("invoke_action", { action_name: "tool__plain" });

    expect(outcome).toMatchObject({ data: record, forModel: { name: "Ann", note: record.note } });
    expect(JSON.stringify([outcome.value, answer])).not.toContain("SECRET");
    expect(JSON.stringify(answer.data)).toContain("for the model only");
    const written = JSON.stringify(await typesOf(qm, "call.ended"));
    expect(written).toContain("Ann");
    expect(written).not.toMatch(/SECRET|for the model only/);
  });

  test("stays reduced after an approval, on every path", async () => {
    const qm = await answering();
    const id = idOf(await qm.invoke("tool__asking"));
    await qm.approvals.answer(id, approved, ann);
    await expect.poll(async () => (await qm.approvals.get(id)).state).toBe("done");

    const looked = await qm.approvals.look(id);
    const awaited = await qm.invoke("approval__await", { approval_id: id });

    expect(looked).toMatchObject({ data: { name: "Ann" } });
    expect(awaited).toMatchObject({ data: { result: { name: "Ann", note: record.note } } });
    expect(JSON.stringify([looked.value, awaited.value, (looked as { data?: unknown }).data])).not.toContain("SECRET");
    expect(JSON.stringify(await qm.ledger.read({}))).not.toMatch(/SECRET|for the model only/);
  });

  test("stays empty for the model when its destination returns null", async () => {
    const qm = await answering({ destinations: { "llm-session": () => null } });
    const id = idOf(await qm.invoke("tool__asking"));
    await qm.approvals.answer(id, approved, ann);

    const awaited = await qm.invoke("approval__await", { approval_id: id, wait_ms: 5_000 });

    expect(awaited).toMatchObject({ data: { status: "done", result: null } });
    expect(JSON.stringify(await qm.approvals.look(id))).not.toContain('"data":{"name"');
  });

  test("is shown to the approver in full and to the model as a token when it is passed to another call", async () => {
    const pay = defineAction("bank", {
      entry: "pay",
      description: "Pay.",
      effect: "external",
      input: { type: "object", properties: { to: { type: "string" } }, required: ["to"] },
      requiresApproval: true,
      preview: async ({ to }) => `pays to ${String(to)}`,
      run: (args) => args,
    });
    const bank: Provider = { category: "bank", capability: "pay", list: () => [pay] };
    const qm = await counter({ providers: [bank] });
    qm.register(
      tool("find", {
        requiresApproval: false,
        handler: () => annotate({ iban: "DE-SECRET-1" }, { iban: { composition: "anchored" } }),
      }),
    );
    const { forModel } = (await qm.invoke("tool__find")) as unknown as { readonly forModel: JsonObject };

    const waiting = await qm.invoke("bank__pay", { to: forModel.iban });
    const shown = await qm.approvals.get(idOf(waiting));
    const listed = await qm.invoke("approval__list");
    const awaited = await qm.invoke("approval__await", { approval_id: shown.id, wait_ms: 0 });

    expect(shown).toMatchObject({ args: { to: "DE-SECRET-1" }, preview: "pays to DE-SECRET-1" });
    expect(JSON.stringify([waiting, listed, awaited])).not.toContain("SECRET");
    await qm.approvals.answer(shown.id, approved, ann);
    expect(await qm.approvals.outcome(shown.id, { timeoutMs: 5_000 })).toMatchObject({ data: { to: "DE-SECRET-1" } });
  });
});

test("ignores a tracer that throws", async () => {
  const boom = (): never => {
    throw new Error("boom");
  };
  const span = { set: boom, fail: boom, rename: boom, carrier: boom, within: boom, end: boom };
  for (const tracer of [
    { content: true, start: boom, took: boom },
    { content: true, start: () => span, took: boom },
  ]) {
    const qm = await counter({ tracer });
    qm.register(tool("pay", { requiresApproval: false }));

    expect((await qm.invoke("tool__pay", { sum: 1 })).status).toBe("done");
  }
  expect(ran).toHaveLength(2);
});

test("notifies the other listeners when one throws", async () => {
  const problems: string[] = [];
  const qm = await counter({ onProblem: (problem) => problems.push(problem) });
  qm.register(tool("pay"));
  const states: string[] = [];
  const stop = qm.approvals.onChange(({ state }) => {
    states.push(state);
    throw new Error("deaf");
  });
  await expect
    .poll(async () => {
      if (states.length === 0) await qm.invoke("tool__pay", { sum: Math.random() });
      return states.length;
    })
    .toBeGreaterThan(0);
  const before = states.length;
  const [waiting] = await qm.approvals.list({ state: "pending" });
  await qm.approvals.answer(waiting?.id ?? "", approved, ann);

  await expect.poll(() => states.slice(before).includes("done")).toBe(true);
  stop();
  expect(problems.some((problem) => problem.includes("deaf"))).toBe(true);
});
