import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { systemRuntime } from "../src/app/system-runtime.ts";
import type { Approver } from "../src/approval/approval.ts";
import { createLeftOpenError, type Dialogue } from "../src/core/caller.ts";
import {
  createQuartermaster,
  type JsonObject,
  type Outcome,
  type Quartermaster,
  type QuartermasterOptions,
} from "../src/index.ts";
import { openSqlite } from "../src/store/drivers/sqlite.ts";
import { sql } from "../src/store/sql.ts";

const ann: Approver = { id: "ann", roles: ["approver"], via: "test" };
const approved = { decision: "approved" } as const;
const denied = { decision: "denied" } as const;
const DAY_MS = 86_400_000;

const open: Quartermaster[] = [];
const folders: string[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((each) => each.close()));
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

interface World {
  readonly qm: Quartermaster;
  /** What was paid, in order. */
  readonly paid: unknown[];
  /** Turns the clock on. */
  later(ms: number): void;
}

async function world(options: QuartermasterOptions = {}, rule: object = { requiresApproval: true }): Promise<World> {
  let offset = 0;
  const runtime = { ...systemRuntime, now: () => new Date(Date.now() + offset) };
  const qm = await createQuartermaster({ runtime, ...options });
  open.push(qm);
  const paid: unknown[] = [];
  qm.register({
    name: "pay",
    description: "Pay a sum.",
    inputSchema: {
      type: "object",
      properties: { sum: { type: "number" }, password: { type: "string" } },
      required: ["sum"],
    },
    scope: "generalist",
    effect: "external",
    handler: (args, { approvalDecision }) => {
      paid.push(args);
      return { paid: (args as JsonObject).sum, by: approvalDecision?.by };
    },
    ...rule,
  });
  return {
    qm,
    paid,
    later: (ms) => {
      offset += ms;
    },
  };
}

function idOf(outcome: Outcome): string {
  if (outcome.status !== "waiting") expect.fail(`it is ${outcome.status}: ${outcome.value}`);
  return outcome.approval.id;
}

const ended = (qm: Quartermaster, id: string) => qm.approvals.outcome(id, { timeoutMs: 5_000 });
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (thrown: { readonly code?: string }) => thrown.code ?? String(thrown),
  );

describe("a call that must be agreed to", () => {
  test("waits, runs once when somebody agrees, and says who agreed", async () => {
    const { qm, paid } = await world();

    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    expect(paid).toEqual([]);
    await qm.approvals.answer(id, { ...approved, reason: "go on" }, ann);

    expect(await ended(qm, id)).toMatchObject({ status: "done", data: { paid: 5, by: "ann" } });
    expect(await qm.approvals.run()).toBe(0);
    expect(paid).toEqual([{ sum: 5 }]);
    const types = (await qm.ledger.read({})).map(({ type }) => type).filter((type) => /^(call|approval)\./.test(type));
    expect(types).toEqual([
      "call.received",
      "call.decided",
      "approval.requested",
      "call.suspended",
      "approval.decided",
      "call.resumed",
      "call.decided",
      "call.ended",
    ]);
  });

  test("is a ToolDenied result when somebody says no, and never runs", async () => {
    const { qm, paid } = await world();

    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    await qm.approvals.answer(id, { ...denied, reason: "too dear" }, ann);

    expect(await ended(qm, id)).toMatchObject({
      status: "refused",
      reason: "ann denied this call: too dear",
      error: { code: "tool_denied", approval_id: id },
    });
    expect(await qm.approvals.run()).toBe(0);
    expect(paid).toEqual([]);
  });

  test("asked for again while it waits, it is the same question", async () => {
    const { qm, paid } = await world();

    const [first, second] = await Promise.all([qm.invoke("tool__pay", { sum: 5 }), qm.invoke("tool__pay", { sum: 5 })]);
    const other = await qm.invoke("tool__pay", { sum: 6 });

    expect(idOf(second)).toBe(idOf(first));
    expect(idOf(other)).not.toBe(idOf(first));
    await qm.approvals.answer(idOf(first), approved, ann);
    await ended(qm, idOf(first));
    expect(paid).toEqual([{ sum: 5 }]);
  });

  test("asked for again when it has run, it answers what came of it, once; then it is a new question", async () => {
    const { qm, paid } = await world();
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    await qm.approvals.answer(id, approved, ann);
    await expect.poll(() => paid.length).toBe(1);
    await expect.poll(async () => (await qm.approvals.get(id)).state).toBe("done");

    const again = await qm.invoke("tool__pay", { sum: 5 });
    const anew = await qm.invoke("tool__pay", { sum: 5 });

    expect(again).toMatchObject({ status: "done", data: { paid: 5 } });
    expect(idOf(anew)).not.toBe(id);
    expect(paid).toHaveLength(1);
  });

  test("cannot be agreed to when its time is over", async () => {
    const { qm, paid, later } = await world({}, { requiresApproval: { autoApproveIf: "false", expiresIn: "15m" } });
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));

    later(15 * 60_000);

    expect(await codeOf(qm.approvals.answer(id, approved, ann))).toBe("approval_expired");
    expect(await ended(qm, id)).toMatchObject({ status: "refused", error: { code: "approval_expired" } });
    expect(await qm.approvals.run()).toBe(0);
    expect(paid).toEqual([]);
  });

  test("does not run when it was agreed to and its time passed before anybody could run it", async () => {
    const { qm, paid, later } = await world({ approvals: { worker: false } });
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    await qm.approvals.answer(id, approved, ann);

    later(DAY_MS);

    expect(await qm.approvals.run()).toBe(0);
    expect((await qm.approvals.get(id)).state).toBe("expired");
    expect(paid).toEqual([]);
  });

  test("shows the exact arguments but for known secrets, and runs with them", async () => {
    const secrets = () => [{ name: "PAY_PIN", value: "correct-horse" }];
    const { qm, paid } = await world({ redact: { secrets } });
    const args = { sum: 5, password: "correct-horse", token: "not known" };

    const id = idOf(await qm.invoke("tool__pay", args));
    const shown = JSON.stringify([await qm.approvals.list(), await qm.approvals.get(id)]);
    await qm.approvals.answer(id, approved, ann);
    await ended(qm, id);

    expect(shown).not.toContain("correct-horse");
    expect(shown).toContain('"password":"[secret PAY_PIN]","token":"not known"');
    expect(JSON.stringify(await qm.ledger.read({}))).not.toContain("correct-horse");
    expect(paid).toEqual([args]);
  });

  test("one session cannot have more of them than the policy says", async () => {
    const { qm } = await world({ policy: { approvals: { maxOpen: 2 } } });

    const outcomes = [];
    for (const sum of [1, 2, 3]) outcomes.push(await qm.invoke("tool__pay", { sum }));

    expect(outcomes.map(({ status }) => status)).toEqual(["waiting", "waiting", "failed"]);
    expect(outcomes[2]).toMatchObject({ error: { code: "overloaded" } });
    expect((await qm.invoke("tool__pay", { sum: 3 }, { caller: { session: "another" } })).status).toBe("waiting");
  });
});

describe("who may agree", () => {
  const answers: readonly (readonly [string, object, object, Approver, string])[] = [
    ["an approver", {}, {}, ann, "done"],
    ["an administrator", {}, {}, { id: "eve", roles: ["admin"], via: "test" }, "done"],
    ["somebody who may only look", {}, {}, { id: "eve", roles: ["viewer"], via: "test" }, "denied"],
    ["nobody in particular", {}, {}, { id: "eve", roles: [], via: "test" }, "denied"],
    ["the user it was asked for", {}, {}, { ...ann, id: "uma" }, "denied"],
    ["the person it was asked for", {}, {}, { ...ann, id: "pat" }, "denied"],
    ["the user it was asked for, where the policy lets them", { allowSelf: true }, {}, { ...ann, id: "uma" }, "done"],
    ["an approver, where an administrator must", {}, { level: "admin" }, ann, "denied"],
    ["an administrator, where one must", {}, { level: "admin" }, { ...ann, roles: ["admin"] }, "done"],
    ["the role of a level of our own", {}, { level: "finance" }, { ...ann, roles: ["finance"] }, "done"],
    ["an approver, at a level of our own", {}, { level: "finance" }, ann, "denied"],
    [
      "a role that a level names",
      { levels: { finance: { roles: ["cfo"] } } },
      { level: "finance" },
      { ...ann, roles: ["cfo"] },
      "done",
    ],
    [
      "an administrator, where a level does not name them",
      { levels: { finance: { roles: ["cfo"] } } },
      { level: "finance" },
      { ...ann, roles: ["admin"] },
      "denied",
    ],
  ];

  test.each(answers)("%s", async (_, approvals, rule, approver, expected) => {
    const { qm, paid } = await world(
      { policy: { approvals } },
      { requiresApproval: { autoApproveIf: "false", ...rule } },
    );
    const caller = { user: { id: "uma" }, person: "pat" };
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }, { caller }));

    expect(await codeOf(qm.approvals.answer(id, approved, approver))).toBe(expected);

    if (expected === "denied") {
      expect((await qm.approvals.get(id)).state).toBe("pending");
      const [refused] = await qm.ledger.read({ type: "approval.refused" });
      expect(refused?.data).toMatchObject({ approvalId: id, by: approver.id });
    } else await ended(qm, id);
    expect(paid).toHaveLength(expected === "done" ? 1 : 0);
  });

  test("of many answers at the same time one counts, and the others are told whose", async () => {
    const { qm, paid } = await world();
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    const people = Array.from({ length: 10 }, (_, at) => ({ ...ann, id: `p${at}` }));

    const told = await Promise.all(
      people.map((person, at) =>
        qm.approvals.answer(id, at % 2 === 0 ? approved : denied, person).then(
          () => "counted",
          ({ code, message }) => `${code} ${message}`,
        ),
      ),
    );

    expect(told.filter((each) => each === "counted")).toHaveLength(1);
    const winner = people[told.indexOf("counted")]?.id ?? "";
    for (const each of told.filter((one) => one !== "counted"))
      expect(each).toMatch(new RegExp(`^conflict .*by ${winner} via test`));
    const { answer } = await qm.approvals.get(id);
    const outcome = await ended(qm, id);
    expect(outcome.status).toBe(answer?.decision === "approved" ? "done" : "refused");
    expect(paid).toHaveLength(answer?.decision === "approved" ? 1 : 0);
  });

  test("nobody can answer what is not there", async () => {
    const { qm } = await world();
    expect(await codeOf(qm.approvals.answer("nothing", approved, ann))).toBe("not_found");
    expect(await codeOf(qm.approvals.get("nothing"))).toBe("not_found");
    expect(await codeOf(qm.approvals.outcome("nothing"))).toBe("not_found");
  });
});

describe("when a person must agree", () => {
  const rules: readonly (readonly [string, QuartermasterOptions, object, string])[] = [
    ["never", {}, {}, "done"],
    ["always", {}, { requiresApproval: true }, "waiting user"],
    ["unless a condition holds, and it does", {}, { requiresApproval: { autoApproveIf: "args.sum < 50.0" } }, "done"],
    [
      "unless a condition holds, and it does not",
      {},
      { requiresApproval: { autoApproveIf: "args.sum < 5.0", level: "admin" } },
      "waiting admin",
    ],
    ["a condition that fails", {}, { requiresApproval: { autoApproveIf: "args.none.of < 5.0" } }, "waiting user"],
    ["a function that says no", {}, { requiresApproval: () => "auto" }, "done"],
    ["a function that names a level", {}, { requiresApproval: () => "finance" }, "waiting finance"],
    [
      "a function that throws",
      {},
      {
        requiresApproval: () => {
          throw new Error("no");
        },
      },
      "waiting admin",
    ],
    [
      "a function that answers nonsense",
      {},
      { requiresApproval: () => undefined as unknown as string },
      "waiting admin",
    ],
    ["its category says so", { policy: { approvals: { categories: { tool: true } } } }, {}, "waiting user"],
    [
      "its category says so, and it knows better",
      { policy: { approvals: { categories: { tool: true } } } },
      { requiresApproval: false },
      "done",
    ],
    [
      "its category has a condition",
      { policy: { approvals: { categories: { tool: { autoApproveIf: "args.sum < 50.0" } } } } },
      {},
      "done",
    ],
    ["another category says so", { policy: { approvals: { categories: { file: true } } } }, {}, "done"],
    [
      "a tag rule",
      { policy: { rules: [{ rule: "tool.effect == 'external'", effect: "ask", level: "finance" }] } },
      {},
      "waiting finance",
    ],
    [
      "two rules: the more demanding counts",
      {
        policy: {
          rules: [
            { rule: "true", effect: "ask" },
            { rule: "true", effect: "ask", level: "admin" },
          ],
        },
      },
      { requiresApproval: true },
      "waiting admin",
    ],
    [
      "a rule that asks and one that denies",
      {
        policy: {
          rules: [
            { rule: "true", effect: "ask" },
            { rule: "true", effect: "deny" },
          ],
        },
      },
      {},
      "refused",
    ],
  ];

  test.each(rules)("%s", async (_, options, rule, expected) => {
    const { qm } = await world(options, rule);

    const outcome = await qm.invoke("tool__pay", { sum: 5 });

    expect(outcome.status === "waiting" ? `waiting ${outcome.approval.level}` : outcome.status).toBe(expected);
  });

  test("the question stands as long as the shortest of those that ask lets it", async () => {
    const { qm } = await world(
      { policy: { rules: [{ rule: "true", effect: "ask", expiresIn: "1h" }], approvals: { expiresIn: "2d" } } },
      { requiresApproval: { autoApproveIf: "false", expiresIn: "10m" } },
    );
    const outcome = await qm.invoke("tool__pay", { sum: 5 });
    const { requestedAt, expiresAt } = await qm.approvals.get(idOf(outcome));

    expect(Date.parse(expiresAt) - Date.parse(requestedAt)).toBe(10 * 60_000);
  });
});

describe("what was agreed to", () => {
  test.each<readonly [string, (qm: Quartermaster) => void, string]>([
    ["the policy changes", (qm) => qm.usePolicy({ rules: [{ rule: "false", effect: "deny" }] }), "approval_expired"],
    [
      "the actor loses the action",
      (qm) => qm.usePolicy({ actors: [{ name: "default", tools: ["approval__list"] }] }),
      "approval_expired",
    ],
    ["the actor is gone", (qm) => qm.usePolicy({ actors: [{ name: "other", tools: ["*"] }] }), "approval_expired"],
    ["a rule denies it", (qm) => qm.usePolicy({ rules: [{ rule: "true", effect: "deny" }] }), "approval_expired"],
    [
      "the definition changes",
      (qm) => {
        qm.unregister("pay");
        qm.register({
          name: "pay",
          description: "Pay a sum, twice.",
          inputSchema: { type: "object", properties: { sum: { type: "number" } } },
          scope: "generalist",
          effect: "external",
          requiresApproval: true,
          handler: () => expect.fail("it ran"),
        });
      },
      "approval_expired",
    ],
  ])("is not run when %s", async (_, change, code) => {
    const { qm, paid } = await world({ approvals: { worker: false } });
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    await qm.approvals.answer(id, approved, ann);

    change(qm);
    await qm.approvals.run();

    expect(await ended(qm, id)).toMatchObject({ status: "refused", error: { code } });
    expect(paid).toEqual([]);
  });

  test("is not run with other arguments, even where somebody writes them into the store", async () => {
    const folder = mkdtempSync(join(tmpdir(), "qm-approvals-"));
    folders.push(folder);
    const store = join(folder, "store.db");
    const { qm, paid } = await world({ store, approvals: { worker: false } });
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    await qm.approvals.answer(id, approved, ann);

    const db = await openSqlite(store);
    await db.all(sql`update approvals set args = ${'{"sum":500}'} where id = ${id}`);
    await db.close();
    await qm.approvals.run();

    expect(await ended(qm, id)).toMatchObject({ status: "refused", error: { code: "approval_expired" } });
    expect(paid).toEqual([]);
  });

  test("waits for its action where that is not there, and runs when it is", async () => {
    const { qm } = await world({ approvals: { worker: false } });
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    await qm.approvals.answer(id, approved, ann);
    qm.unregister("pay");

    expect(await qm.approvals.run()).toBe(0);
    expect((await qm.approvals.get(id)).state).toBe("approved");
  });

  test("is charged to the budget when it runs, and does not run without one", async () => {
    const { qm, paid } = await world({ policy: { budgets: { session: { calls: 1 } } } });
    const ids = [];
    for (const sum of [1, 2]) ids.push(idOf(await qm.invoke("tool__pay", { sum })));
    for (const id of ids) await qm.approvals.answer(id, approved, ann);

    const outcomes = await Promise.all(ids.map((id) => ended(qm, id)));

    expect(outcomes.map(({ status }) => status).sort()).toEqual(["done", "refused"]);
    expect(paid).toHaveLength(1);
  });

  test("that fails has failed, and is not tried again", async () => {
    let tries = 0;
    const { qm } = await world(
      {},
      {
        requiresApproval: true,
        handler: () => {
          tries++;
          throw new Error("the bank is shut");
        },
      },
    );
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    await qm.approvals.answer(id, approved, ann);

    expect(await ended(qm, id)).toMatchObject({ status: "failed", error: { code: "action_failed" } });
    await qm.approvals.run();
    expect(tries).toBe(1);
  });
});

describe("the caller", () => {
  test("waits with an action of its own, lists what waits, and takes it back", async () => {
    const { qm, paid } = await world();
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    const other = idOf(await qm.invoke("tool__pay", { sum: 6 }));

    const waiting = await qm.invoke("approval__await", { approval_id: id, wait_ms: 0 });
    expect(waiting).toMatchObject({ status: "done", data: { status: "waiting", approval_id: id } });
    expect(await qm.invoke("approval__list")).toMatchObject({
      data: { waiting: [{ approval_id: id, action: "tool__pay" }, { approval_id: other }] },
    });

    const following = qm.invoke("approval__await", { approval_id: id, wait_ms: 20_000 });
    await qm.approvals.answer(id, approved, ann);
    expect(await following).toMatchObject({ status: "done", data: { status: "done", result: { paid: 5 } } });

    expect(await qm.invoke("approval__withdraw", { approval_id: other })).toMatchObject({ data: { state: "expired" } });
    expect(await codeOf(qm.approvals.answer(other, approved, ann))).toBe("approval_expired");
    expect(paid).toEqual([{ sum: 5 }]);
  });

  test("sees nothing of another's", async () => {
    const { qm } = await world({
      policy: {
        actors: [
          { name: "default", tools: ["*"] },
          { name: "other", tools: ["*"] },
        ],
      },
    });
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));

    for (const caller of [{ actor: "other" }, { tenant: "t" }, { user: { id: "u" } }]) {
      for (const action of ["approval__await", "approval__withdraw"]) {
        const outcome = await qm.invoke(action, { approval_id: id }, { caller });
        expect(outcome).toMatchObject({ status: "failed", error: { code: "not_found" } });
      }
      expect(await qm.invoke("approval__list", {}, { caller })).toMatchObject({
        data: { waiting: caller.user === undefined ? [] : expect.any(Array) },
      });
    }
  });

  test("has those actions only where something can come to wait", async () => {
    const { qm } = await world({}, {});
    expect(qm.names()).toEqual(["tool__pay"]);

    qm.usePolicy({ rules: [{ rule: "tool.name == 'tool__pay'", effect: "ask" }] });

    expect(qm.names()).toEqual(["approval__await", "approval__list", "approval__withdraw", "tool__pay"]);
  });
});

describe("asking while the call waits", () => {
  test("the host's own way", async () => {
    const asked: unknown[] = [];
    const { qm, paid } = await world({
      approvals: {
        ask: async ({ action, args }) => {
          asked.push({ action, args });
          return { decision: "approved", by: "host", roles: ["approver"] };
        },
      },
    });

    expect(await qm.invoke("tool__pay", { sum: 5 })).toMatchObject({ status: "done", data: { by: "host" } });
    expect(asked).toEqual([{ action: "tool__pay", args: { sum: 5 } }]);
    // Whoever heard the outcome has it: the same call is a new one.
    expect(await qm.invoke("tool__pay", { sum: 5 })).toMatchObject({ status: "done" });
    expect(paid).toHaveLength(2);
    const decided = (await qm.ledger.read({ type: "call.decided" })).map(({ data }) => data);
    expect(decided.filter((data) => (data as JsonObject).approvalId !== undefined)).toHaveLength(2);
  });

  test.each<readonly [string, NonNullable<NonNullable<QuartermasterOptions["approvals"]>["ask"]>]>([
    ["leaves it to others", async () => undefined],
    ["fails", async () => Promise.reject(new Error("nobody at home"))],
    [
      "throws",
      () => {
        throw new Error("nobody at home");
      },
    ],
    ["has not the role", async () => ({ decision: "approved", by: "host", roles: ["viewer"] })],
  ])("that %s leaves the call waiting", async (_, ask) => {
    const { qm, paid } = await world({ approvals: { ask } });

    expect((await qm.invoke("tool__pay", { sum: 5 })).status).toBe("waiting");
    expect(paid).toEqual([]);
  });

  test("another channel may be quicker, and the slow one is told", async () => {
    let answer: ((answer: { decision: "denied"; by: string }) => void) | undefined;
    const problems: string[] = [];
    const { qm, paid } = await world({
      onProblem: (problem) => problems.push(problem),
      approvals: {
        ask: () =>
          new Promise((resolve) => {
            answer = resolve;
          }),
      },
    });

    const call = qm.invoke("tool__pay", { sum: 5 });
    await expect.poll(async () => (await qm.approvals.list({ state: "pending" })).length).toBe(1);
    const [waiting] = await qm.approvals.list();
    await qm.approvals.answer(waiting?.id ?? "", approved, ann);

    expect(await call).toMatchObject({ status: "done", data: { by: "ann" } });
    answer?.({ decision: "denied", by: "host" });
    await expect.poll(async () => (await qm.ledger.read({ type: "approval.refused" })).length).toBe(1);
    expect(paid).toHaveLength(1);
    expect(problems).toEqual([]);
  });

  const dialogue = (
    answer: () => Promise<JsonObject>,
    capabilities: JsonObject = { elicitation: { form: {} } },
  ): Dialogue => ({
    owner: "client",
    capabilities,
    progress: () => {},
    log: () => {},
    ask: async (questions) => {
      expect(Object.values(questions)[0]?.params.message).toContain("tool__pay");
      return { approve: await answer() };
    },
  });

  test.each<readonly [string, JsonObject, string]>([
    ["agrees", { action: "accept", content: { decision: "approve" } }, "done"],
    ["says no", { action: "accept", content: { decision: "deny", reason: "no" } }, "tool_denied"],
    ["declines", { action: "decline" }, "tool_denied"],
    ["puts it away", { action: "cancel" }, "waiting"],
    ["says nothing that can be understood", { action: "accept", content: { decision: "perhaps" } }, "waiting"],
    ["says nothing at all", {}, "waiting"],
  ])("the person at the client %s", async (_, answer, expected) => {
    const { qm, paid } = await world();

    const outcome = await qm.invoke("tool__pay", { sum: 5 }, { dialogue: dialogue(async () => answer) });

    expect("error" in outcome ? outcome.error.code : outcome.status).toBe(expected);
    expect(paid).toHaveLength(expected === "done" ? 1 : 0);
  });

  const unasked: readonly (readonly [string, QuartermasterOptions, object, object, JsonObject | undefined])[] = [
    ["cannot be shown a form", {}, {}, {}, {}],
    ["can only open addresses", {}, {}, {}, { elicitation: { url: {} } }],
    ["is not to be asked", { policy: { approvals: { askClient: false } } }, {}, {}, undefined],
    ["is no administrator, where one must agree", {}, { level: "admin" }, {}, undefined],
    ["is who it is asked for", {}, {}, { user: { id: "uma" } }, undefined],
  ];

  test.each(unasked)("the person at a client that %s is not asked", async (_, options, rule, caller, capabilities) => {
    const { qm } = await world(options, { requiresApproval: { autoApproveIf: "false", ...rule } });
    let asked = 0;
    const counting = dialogue(async () => {
      asked++;
      return { action: "cancel" };
    }, capabilities);

    expect((await qm.invoke("tool__pay", { sum: 5 }, { caller, dialogue: counting })).status).toBe("waiting");
    expect(asked).toBe(0);
  });

  test("a caller that cancels takes its question back; one that is only gone does not", async () => {
    const { qm, paid } = await world();
    const never = dialogue(() => new Promise(() => {}));
    for (const [sum, reason, state] of [
      [1, undefined, "expired"],
      [2, createLeftOpenError("nobody was there"), "pending"],
    ] as const) {
      const controller = new AbortController();
      const call = qm.invoke("tool__pay", { sum }, { dialogue: never, signal: controller.signal });
      await expect.poll(async () => (await qm.approvals.list({ state: "pending" })).length).toBe(1);
      const [waiting] = await qm.approvals.list({ state: "pending" });

      controller.abort(reason);

      expect(await call).toMatchObject({ status: "failed", error: { code: "cancelled" } });
      expect((await qm.approvals.get(waiting?.id ?? "")).state).toBe(state);
    }
    expect(paid).toEqual([]);
  });
});

test("a call that another process runs while it is waited for here has one end in the ledger", async () => {
  const folder = mkdtempSync(join(tmpdir(), "qm-approvals-"));
  folders.push(folder);
  const store = join(folder, "store.db");
  const here = await world({ store, approvals: { worker: false, ask: () => new Promise(() => {}) } });
  const there = await world({ store, approvals: { worker: false } });

  const call = here.qm.invoke("tool__pay", { sum: 5 });
  await expect.poll(async () => (await there.qm.approvals.list({ state: "pending" })).length).toBe(1);
  const [waiting] = await there.qm.approvals.list();
  await there.qm.approvals.answer(waiting?.id ?? "", approved, ann);
  await there.qm.approvals.run(waiting?.id);

  const outcome = await call;
  expect(outcome).toMatchObject({ status: "done", data: { paid: 5 } });
  expect([...here.paid, ...there.paid]).toHaveLength(1);
  const ends = await there.qm.ledger.read({ callId: outcome.callId, type: "call.ended" });
  expect(ends).toHaveLength(1);
});

describe("calls inside calls", () => {
  test("in parallel: each waits for itself, and the one around them can wait for all", async () => {
    const { qm, paid } = await world();
    qm.register({
      name: "payAll",
      description: "Pay several sums.",
      inputSchema: { type: "object", properties: {} },
      scope: "generalist",
      effect: "external",
      timeout: 2_000,
      async handler(_, { invoke, settled }) {
        const outcomes = await Promise.all([1, 2, 3].map((sum) => invoke("tool__pay", { sum })));
        const settledAll = await Promise.all(outcomes.map(settled));
        return settledAll.map(({ status }) => status);
      },
    });

    const call = qm.invoke("tool__payAll");
    await expect.poll(async () => (await qm.approvals.list({ state: "pending" })).length).toBe(3);
    // Longer than the call's own time: that a person takes does not count.
    await new Promise((resolve) => setTimeout(resolve, 2_300));
    for (const { id, args } of await qm.approvals.list({ state: "pending" })) {
      await qm.approvals.answer(id, (args as JsonObject).sum === 2 ? denied : approved, ann);
    }

    expect(await call).toMatchObject({ status: "done", data: ["done", "refused", "done"] });
    expect(paid).toHaveLength(2);
  });
});
